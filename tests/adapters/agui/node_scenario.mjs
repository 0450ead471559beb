// The published `@ag-ui/client`, unchanged: a conversation with a tool of the page's, an approval, a question and a
// server that is killed in between. Prints one JSON object for each check and each event; reads the address of the
// next server from standard input when it has asked for a kill.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import path from "node:path";

const [modules, first, token] = process.argv.slice(2);
const require = createRequire(path.join(modules, "package.json"));
const { HttpAgent, buildResumeArray } = require("@ag-ui/client");
const input = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const show = (value) => process.stdout.write(JSON.stringify(value) + "\n");
const same = (name, found, wanted) =>
  show({ check: name, ok: JSON.stringify(found) === JSON.stringify(wanted), found, wanted });
const warnings = [];
console.warn = (...words) => warnings.push(words.join(" "));

const agent = new HttpAgent({
  url: `${first}/v1/ag-ui/teller`,
  headers: { Authorization: `Bearer ${token}` },
  threadId: "march",
});
const tools = [
  {
    name: "look_up",
    description: "Looks up whose it is",
    parameters: { type: "object", properties: { name: { type: "string" } } },
  },
];
let said = 0;
let finished;
const say = (content) => agent.addMessage({ id: `u${++said}`, role: "user", content });
const run = async (more = {}) => {
  finished = undefined;
  const seen = [];
  await agent.runAgent(
    { tools, ...more },
    {
      onEvent: ({ event }) => {
        seen.push(event);
        show({ event });
      },
      onRunFinishedEvent: (params) => {
        finished = params;
      },
    },
  );
  return seen.map((event) => event.type);
};
const outline = () =>
  agent.messages
    .filter((one) => one.role !== "reasoning")
    .map((one) => [one.role, one.content ?? "", (one.toolCalls ?? []).map((call) => call.function.name).join()]);
const restarted = async () => {
  show({ kill: true });
  agent.url = `${(await input.next()).value}/v1/ag-ui/teller`;
};

say("Pay the invoice.");
const types = await run();
same("a run begins with RUN_STARTED and ends with RUN_FINISHED", [types[0], types.at(-1)], ["RUN_STARTED", "RUN_FINISHED"]);
for (const type of ["STEP_STARTED", "REASONING_MESSAGE_CONTENT", "TEXT_MESSAGE_CONTENT", "TOOL_CALL_ARGS"]) {
  same(`the run tells ${type}`, types.includes(type), true);
}
same("it waits for the page's own tool", [finished.outcome, finished.pendingToolCallIds.length], ["success", 1]);
const wanted = agent.messages.at(-1).toolCalls[0];
same("the call is whole", [wanted.function.name, wanted.function.arguments], ["look_up", '{"name":"x"}']);

agent.addMessage({ id: "t1", role: "tool", toolCallId: wanted.id, content: "it is ours" });
await run();
same("it asks before it pays", [finished.outcome, finished.interrupts.length], ["interrupt", 1]);
const [interrupt] = finished.interrupts;
same("what is asked is said", [interrupt.reason, interrupt.responseSchema.required], ["tool_call", ["approved"]]);
const before = outline();

await restarted();
await run({ resume: buildResumeArray(agent.pendingInterrupts, { [interrupt.id]: { status: "resolved", payload: { approved: true } } }) });
same("the thread goes on behind kill -9", finished.outcome, "success");
same("the history grows at its end alone", outline(), [
  ...before,
  ["tool", "paid 3", ""],
  ["assistant", "It is so: paid 3.", ""],
]);

await restarted();
const whole = outline();
same("a run without news is told again", (await run()).includes("MESSAGES_SNAPSHOT"), true);
same("and nothing is doubled by it", outline(), whole);

say("Ask me.");
await run();
const [question] = finished.interrupts;
same("a question is an interrupt", question.reason, "input_required");
await run({ resume: [{ interruptId: question.id, status: "resolved", payload: { answer: "blue" } }] });
same("its answer is heard", agent.messages.at(-1).content.includes("blue"), true);

agent.setState({ page: 7 });
say("Note it.");
await run();
same("state of the page and task of the agent stand side by side", [agent.state.page, agent.state.task?.goal], [7, "to pay"]);

agent.setMessages([]);
say("Show me.");
await run({ context: [{ description: "page", value: "the invoices" }] });
same("a page that has lost its history is given it", agent.messages[0].content, "Pay the invoice.");
same("what it says beside the words is heard", agent.messages.at(-1).content.includes("page: the invoices"), true);
same("its own words are kept as they were said", agent.messages.at(-2).content, "Show me.");

agent.setState({});
say("Fail.");
same("a failure is RUN_ERROR", (await run().catch(() => ["failed"])).at(-1), "RUN_ERROR");
same("no event needed mending", warnings, []);
process.exit(0);
