// The published Node client, unchanged: prints a line for each thing that it checks, and one for each event.
// Arguments: the folder of node_modules, the folder to work in, the file with the server's pid, the port of another.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { isDeepStrictEqual } from "node:util";

const [modules, folder, pidFile, port] = process.argv.slice(2);
const sdk = await import(pathToFileURL(join(modules, "@github/copilot-sdk/dist/index.js")).href);
const { CopilotClient, RuntimeConnection, defineTool } = sdk;
const WAIT_MS = 200000;

function check(name, value, wanted = true) {
  console.log(JSON.stringify({ check: name, ok: isDeepStrictEqual(value, wanted), value: JSON.stringify(value) ?? "undefined" }));
}

async function refusal(work) {
  try {
    await work;
  } catch (error) {
    return String(error.message ?? error);
  }
  return "nothing was refused";
}

class Heard {
  events = [];
  #waiting = [];
  take = (event) => {
    this.events.push(event);
    console.log(JSON.stringify({ event }));
    for (const wake of this.#waiting.splice(0)) wake();
  };
  of(kind) {
    return this.events.filter((event) => event.type === kind).map((event) => event.data);
  }
  async until(kind, wanted = () => true, count = 1) {
    for (;;) {
      const found = this.of(kind).filter(wanted);
      if (found.length >= count) return found.at(-1);
      await new Promise((wake) => this.#waiting.push(wake));
    }
  }
}

class Person {
  permissions = [];
  questions = [];
  forms = [];
  plans = [];
  hooks = [];
  commands = [];
  deny = undefined;
  silent = false;

  options(heard) {
    const parameters = { type: "object", properties: { word: { type: "string" } }, required: ["word"] };
    return {
      onEvent: heard.take,
      streaming: true,
      workingDirectory: folder,
      onPermissionRequest: (request) => {
        this.permissions.push(request);
        if (this.silent) return { kind: "no-result" };
        return this.deny ? { kind: "reject", feedback: this.deny } : { kind: "approve-once" };
      },
      onUserInputRequest: (request) => {
        this.questions.push(request);
        return { answer: request.choices[1], wasFreeform: false };
      },
      onElicitationRequest: (context) => {
        this.forms.push(context);
        return { action: "accept", content: { colour: "red" } };
      },
      onExitPlanModeRequest: (request) => {
        this.plans.push(request);
        return { approved: true, selectedAction: "interactive" };
      },
      commands: [{ name: "deploy", description: "Deploys.", handler: (context) => void this.commands.push(context.args) }],
      tools: [
        defineTool("look_up", { description: "Looks up.", parameters, handler: ({ word }) => `${word} is on page 7` }),
        defineTool("count", { description: "Counts.", parameters, skipPermission: true, handler: ({ word }) => `${word.length}` }),
        defineTool("break_down", { description: "Breaks.", parameters, handler: () => { throw new Error("the key is hunter2"); } }),
      ],
      hooks: {
        onPreToolUse: (given) => {
          this.hooks.push(["pre", given]);
          if (given.toolArgs.thing === "gold") return { permissionDecision: "deny", permissionDecisionReason: "gold is not weighed" };
          if (given.toolArgs.thing === "lead") return { modifiedArgs: { thing: "feather" } };
        },
        onPostToolUse: (given) => {
          this.hooks.push(["post", given]);
          if (given.toolName === "weigh") return { additionalContext: "(checked)" };
        },
        onUserPromptSubmitted: (given) => void this.hooks.push(["prompt", given]),
        onSessionStart: (given) => void this.hooks.push(["start", given]),
      },
    };
  }
}

async function said(session, prompt) {
  const answer = await session.sendAndWait(prompt, WAIT_MS);
  return answer?.data.content.trim();
}

async function words(session, heard) {
  check("an answer", await said(session, "say one two three"), "one two three");
  check("its deltas", heard.of("assistant.message_delta").map((data) => data.deltaContent).join(""), "one two three ");
  check("an answer with reasoning", await said(session, "think"), "thought");
  check("the reasoning", heard.of("assistant.reasoning")[0].content, "let me see");
}

async function toolCalls(session, heard, person) {
  check("a client's tool", await said(session, 'call look_up {"word": "ox"}'), "look_up gave ox is on page 7");
  check("a permission is asked", person.permissions.map((request) => request.toolName), ["look_up"]);
  check("and given", heard.of("permission.completed")[0].result.kind, "approved");
  person.deny = "not today";
  check("a denial reaches the model", (await said(session, 'call look_up {"word": "ax"}')).includes("not today"));
  check("a denial is told", heard.of("permission.completed")[1].result.feedback, "not today");
  person.deny = undefined;
  check("a tool that needs none", await said(session, 'call count {"word": "four"}'), "count gave 4");
  check("is not asked about", person.permissions.length, 2);
  const broken = await said(session, 'call break_down {"word": "x"}');
  check("a tool that throws", [broken.startsWith("break_down gave"), broken.includes("hunter2")], [true, false]);
}

async function hooks(session, heard, person) {
  check("a hook adds to a result", await said(session, 'call weigh {"thing": "stone"}'), "weigh gave stone weighs 5\n\n(checked)");
  check("a hook denies", (await said(session, 'call weigh {"thing": "gold"}')).includes("gold is not weighed"));
  check("a hook changes arguments", (await said(session, 'call weigh {"thing": "lead"}')).includes("feather weighs 7"));
  check("hooks are asked", [...new Set(person.hooks.map(([name]) => name))].sort(), ["post", "pre", "prompt", "start"]);
  check("hooks are told", [...new Set(heard.of("hook.end").map((data) => data.hookType))].sort(), ["postToolUse", "preToolUse", "userPromptSubmitted"]);
}

async function questions(session, heard, person) {
  check("a question", await said(session, 'call ask_user {"question": "which?", "options": ["a", "b"]}'), "ask_user gave b");
  check("its choices", person.questions[0].choices, ["a", "b"]);
  const form = '{"message": "your colour?", "form": {"type": "object", "properties": {"colour": {"type": "string"}}}}';
  check("a form", (await said(session, `call ask_user ${form}`)).includes("red"));
  check("a form of the client's own", [await session.ui.confirm("sure?"), person.forms.length], [false, 2]);
  await session.rpc.mode.set({ mode: "plan" });
  check("a plan", (await said(session, 'call plan {"summary": "tidy up", "content": "1. sweep"}')).includes("plan gave"));
  check("is shown and approved", [person.plans[0].planContent, await session.rpc.mode.get()], ["1. sweep", "interactive"]);
  await session.rpc.commands.execute({ commandName: "deploy", args: "to the moon" });
  check("a slash command", person.commands, ["to the moon"]);
}

async function changes(session, heard) {
  writeFileSync(join(folder, "notes.txt"), "the moon is full");
  const attachments = [{ type: "file", path: "notes.txt", displayName: "notes" }];
  check("a file", (await said(session, { prompt: "read this", attachments })).includes("the moon is full"));
  await session.setModel("other");
  check("another model", [await said(session, "anything"), heard.of("session.model_change")[0].newModel], ["in short: much was said", "other"]);
  await session.setModel("scripted");
  for (let number = 0; number < 6; number++) await said(session, `say words number ${number}`);
  check("compaction", (await session.rpc.history.compact()).success);
  await session.log("a note of mine");
  check("a note", (await heard.until("session.info")).message, "a note of mine");
  const waiting = session.sendAndWait("hang", WAIT_MS);
  await heard.until("assistant.message_delta", (data) => data.deltaContent === "begun");
  await session.abort();
  await waiting;
  check("abort", heard.of("abort")[0].reason, "user_initiated");
  check("a failing model", (await refusal(session.sendAndWait("fail", WAIT_MS))).includes("the provider says no"));
}

async function crash(client, session, heard, person) {
  person.silent = true;
  await session.send('call look_up {"word": "ox"}');
  const asked = await heard.until("permission.requested", () => true, heard.of("permission.requested").length + 1);
  const before = (await session.getEvents()).map((event) => event.id);
  process.kill(Number(readFileSync(pidFile, "utf-8")), "SIGKILL");
  await client.forceStop();
  person.silent = false;
  const second = new CopilotClient();
  await second.start();
  const later = new Heard();
  const again = await second.resumeSession(session.sessionId, person.options(later));
  check("after kill -9 it is asked again", (await later.until("permission.requested")).requestId, asked.requestId);
  check("and the work goes on", (await later.until("assistant.message")).content, "look_up gave ox is on page 7");
  await later.until("session.idle");
  const after = (await again.getEvents()).map((event) => event.id);
  check("nothing is lost or told twice", after.slice(0, before.length), before);
  check("the list", (await second.listSessions()).map((one) => one.sessionId), [session.sessionId]);
  await again.disconnect();
  await second.deleteSession(session.sessionId);
  check("delete", await second.listSessions(), []);
  check("what is gone is not resumed", (await refusal(second.resumeSession(session.sessionId, {}))).includes("no session"));
  await second.stop();
}

async function overTcp() {
  const heard = new Heard();
  const client = new CopilotClient({ connection: RuntimeConnection.forUri(`127.0.0.1:${port}`, { connectionToken: "hunter2-hunter2" }) });
  await client.start();
  const session = await client.createSession(new Person().options(heard));
  check("over TCP", await said(session, "say hello"), "hello");
  await client.stop();
}

const client = new CopilotClient();
await client.start();
check("protocol", (await client.getStatus()).protocolVersion, 3);
check("models", (await client.listModels()).map((model) => model.id), ["scripted"]);
const person = new Person();
const heard = new Heard();
const session = await client.createSession(person.options(heard));
check("session.start", (await heard.until("session.start")).sessionId, session.sessionId);
await words(session, heard);
await toolCalls(session, heard, person);
await hooks(session, heard, person);
await questions(session, heard, person);
await changes(session, heard);
await crash(client, session, heard, person);
await overTcp();
process.exit(0);
