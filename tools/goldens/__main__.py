"""Makes the expected values of tests with the reference implementations, and tables in src/ from their data.

    python tools/goldens KIND [ARGUMENT...]     `python tools/goldens KIND --help` has the arguments and packages of a kind
"""

import ast
import importlib
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path[0] = str(FOLDER.parent)  # in place of this folder, whose files are modules of the package

# The other files of the folder are what these share.
KINDS = [
    "decoders", "figures", "masked", "heads", "sentences", "changed_sentences", "vector_precisions", "spans", "integrated_gradients", "pairs", "own", "lens", "beam", "score",
    "data_tokenizers", "small_tokenizers", "bert_tokenizers", "marian_tokenizers", "trained_merges", "trained_vocabularies",
    "template_pieces", "quantized_blocks", "quantized_folders", "lora", "quantization_mix", "optimizers", "adamw_steps", "text_losses", "text_scores", "ngrams", "events",
    "unicode_tables", "score_tables", "template_tables",
]  # fmt: skip


def text_of(kind: str) -> str:
    """The kind's own description, without the packages that it imports."""
    return ast.get_docstring(ast.parse((FOLDER / f"{kind}.py").read_text(encoding="utf-8"))) or ""


def main() -> None:
    kind, *rest = sys.argv[1:] or ["--help"]
    if kind in ("-h", "--help"):
        print(__doc__)
        print("\n".join(f"{kind:22}{text_of(kind).splitlines()[0]}" for kind in KINDS))
        return
    if kind not in KINDS:
        sys.exit(f"unknown kind: expected one of {', '.join(KINDS)}, got '{kind}'")
    if rest and rest[0] in ("-h", "--help"):
        print(text_of(kind))
        return
    sys.argv = [f"goldens {kind}", *rest]
    importlib.import_module(f"goldens.{kind}").main()


main()
