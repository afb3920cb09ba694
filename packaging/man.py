#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the man page of a command from what it says of itself: man.py COMMAND PRINT_ENV.

COMMAND is asked for --help and --version, and for the --help of each of its subcommands; PRINT_ENV prints the table of
environment variables in Markdown.
"""

import re
import subprocess
import sys

COMMAND, PRINT_ENV = sys.argv[1:3]


def ask(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def escape(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.M)


def paragraphs(text):
    return [block.rstrip() for block in re.split(r"\n\s*\n", text.strip("\n"))]


def heading_of(block):
    """A block with a heading is one line that ends in ':' and then indented lines."""
    first, _, rest = block.partition("\n")
    return (first[:-1], rest) if first.endswith(":") and rest.startswith("  ") else (None, block)


def rows(text):
    """Rows of a table in --help: a term, two blanks or a new line, and what is said of it."""
    found = []
    for line in text.splitlines():
        indented = line.startswith(" " * 6)
        term, _, said = line.strip().partition("  ")
        if indented and found:
            found[-1][1].append(line.strip())
        elif line.startswith("  "):
            found.append((term, [said.strip()] if said.strip() else []))
        else:
            found.append((None, [line]))
    return [(term, " ".join(said)) for term, said in found]


def roff_rows(text):
    for term, said in rows(text):
        if term is None:
            yield f".PP\n{escape(said)}"
        else:
            yield f".TP\n.B {escape(term)}\n{escape(said)}"


def roff_example(text):
    lines = [line[2:] if line.startswith("  ") else line for line in text.splitlines()]
    return ".PP\n.nf\n" + escape("\n".join(lines)) + "\n.fi"


def roff_block(block, level):
    heading, rest = heading_of(block)
    if heading is None:
        yield f".PP\n{escape(rest)}"
        return
    yield f'.{level} "{escape(heading.partition(";")[0].upper() if level == "SH" else heading)}"'
    if heading == "Examples":
        yield roff_example(rest)
    else:
        yield from roff_rows(rest)


def subcommands(help_text):
    [table] = [rest for heading, rest in map(heading_of, paragraphs(help_text)) if heading and "Commands" in heading]
    return rows(table)


def roff_subcommand(name):
    blocks = paragraphs(ask(COMMAND, name, "--help"))
    title, usage, *others = blocks
    assert title.startswith(f"attune {name} - ") and usage.startswith("Usage: "), name
    yield f'.SH "{escape("attune " + name).upper()}"'
    yield f".PP\n{escape(title.partition(' - ')[2].capitalize())}."
    yield f".PP\n.B {escape(usage.removeprefix('Usage: '))}"
    for block in others:
        if heading_of(block)[0] != "Exit status":
            yield from roff_block(block, "SS")


def roff_variables():
    yield ".SH ENVIRONMENT"
    table = [line.strip("|").split(" | ") for line in ask(PRINT_ENV).splitlines()]
    assert [cell.strip() for cell in table[0]] == ["variable", "values", "default", "meaning"]
    for name, values, default, meaning in table[2:]:
        yield f".TP\n.B {escape(name.strip(' `'))}\n{escape(meaning.strip())}"
        yield f"One of: {escape(values.strip())}. Default: {escape(default.strip() or 'none')}."


def roff_page():
    version = ask(COMMAND, "--version").strip()
    help_text = ask(COMMAND, "--help")
    title, usage, *others = paragraphs(help_text)
    name, _, purpose = title.partition(" - ")
    yield f'.TH {name.upper()} 1 "" "{version}"'
    yield f".SH NAME\n{name} \\- {escape(purpose)}"
    yield ".SH SYNOPSIS"
    for line in usage.removeprefix("Usage:").splitlines():
        yield f".B {escape(line.strip())}\n.br"
    for block in others:
        if heading_of(block)[0] != "Exit status":
            yield from roff_block(block, "SH")
    for subcommand, _ in subcommands(help_text):
        yield from roff_subcommand(subcommand)
    yield from roff_variables()
    for block in others:
        if heading_of(block)[0] == "Exit status":
            yield from roff_block(block, "SH")


print("\n".join(roff_page()))
