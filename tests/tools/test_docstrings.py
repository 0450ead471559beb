"""Docstrings in three styles, and what is none of them."""

from __future__ import annotations

import pytest

from windlass.tools.types.docstrings import Doc, read

GOOGLE = """Copy a file.

    Slowly.

    Args:
        source (str): Where from.
        target (Optional[dict(str, int)], optional): Where to:
            any place.

            Even far.
        *rest: More.
        **options: Yet more.

    Returns:
        How many bytes.

    Raises:
        OSError: When it fails.
    """
NUMPY = """Copy a file.

    Parameters
    ----------
    source : str
        Where from.
    target, backup : str, optional
        Where to.

        Even far.
    *rest
        More.

    Returns
    -------
    int
        How many bytes.

    Raises
    ------
    OSError
        When it fails.
    """
SPHINX = """Copy a file.

    :param source: Where from.
    :param str target: Where to,
        even far.
    :type target: str
    :param int count: How often.
    :returns: How many bytes.
    :rtype: int
    :raises OSError: When it fails.
    """


@pytest.mark.parametrize(
    ("text", "doc"),
    [
        (None, Doc("", {})),
        ("  \n ", Doc("", {})),
        ("One line.", Doc("One line.", {})),
        (
            GOOGLE,
            Doc(
                "Copy a file.\n\nSlowly.\n\nReturns:\n    How many bytes.",
                {
                    "source": "Where from.",
                    "target": "Where to: any place. Even far.",
                    "rest": "More.",
                    "options": "Yet more.",
                },
            ),
        ),
        (
            NUMPY,
            Doc(
                "Copy a file.\n\nReturns:\nint\n    How many bytes.",
                {
                    "source": "Where from.",
                    "target": "Where to. Even far.",
                    "backup": "Where to. Even far.",
                    "rest": "More.",
                },
            ),
        ),
        (
            SPHINX,
            Doc(
                "Copy a file.\n\nReturns: How many bytes.",
                {"source": "Where from.", "target": "Where to, even far.", "count": "How often."},
            ),
        ),
        ("Args: none of that here.", Doc("Args: none of that here.", {})),
        ("Arguments:\n\nnot indented", Doc("Arguments:\n\nnot indented", {})),
        ("Note: x\n---\ny", Doc("Note: x\n---\ny", {})),
        (":meth:`x` is used.", Doc(":meth:`x` is used.", {})),
        ("Do.\n\nArgs:\n    no colon here\n    x: Yes.", Doc("Do.", {"x": "Yes."})),
    ],
)
def test_docstring_reads_as(text, doc):
    assert read(text) == doc
