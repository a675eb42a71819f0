"""Writes what transformers renders for each template of tests/template/pieces.jsonl, or checks it with --check.

The first line of the file has the variables; each other line has a template, and its text and marks, or the kind and
message of its error. Needs jinja2 3.1.6 and transformers 5.23. To add a piece, add a line {"template": "..."}.
"""
import datetime
import json
import sys

import jinja2
import jinja2.sandbox
from goldens.files import TESTS
from transformers.utils import chat_template_utils

PATH = TESTS / "template/pieces.jsonl"


class Clock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return datetime.datetime(2026, 1, 2, 3, 4, 5)


def kind(error):
    if type(error) is jinja2.TemplateError:
        return "raised"
    for name, of in {"security": jinja2.sandbox.SecurityError, "undefined": jinja2.UndefinedError,
                     "syntax": jinja2.TemplateSyntaxError, "runtime": jinja2.TemplateRuntimeError}.items():
        if isinstance(error, of):
            return name
    return type(error).__name__


def answer(template, variables):
    try:
        texts, marks = chat_template_utils.render_jinja_template(
            [[]], chat_template=template, return_assistant_tokens_mask=True, bos_token="<s>", **variables)
    except Exception as error:  # any exception is what the reference answers
        return {"kind": kind(error), "error": str(error)}
    spans = [[len(texts[0][:i].encode()) for i in mark] for mark in marks[0]]
    return {"text": texts[0], "assistant": spans}


def main():
    chat_template_utils.datetime = Clock
    lines = [json.loads(line) for line in PATH.read_text().splitlines() if line]
    variables = lines[0]["vars"]
    made = [lines[0]] + [{"template": piece["template"], **answer(piece["template"], variables)} for piece in lines[1:]]
    text = "".join(json.dumps(piece) + "\n" for piece in made)
    if "--check" in sys.argv:
        sys.exit(text != PATH.read_text() and "tests/template/pieces.jsonl differs from the reference")
    PATH.write_text(text)
