"""Makes tests/goldens/integrated_gradients.json: integrated gradients of the classes of tests/goldens/heads, and of the
score of tests/goldens/sentences/judge, the logit of yes minus that of no, in float64.

    python tools/goldens integrated_gradients
"""

import numpy
import torch
import transformers
from goldens.files import GOLDENS, write_cases

JUDGE, WORDS = "judge", (30, 31)  # yes, no
# A model and the baseline's id.
CASES = [
    ("bert_classes", 0),
    ("roberta_classes", 4),
    ("distilbert_classes", 0),
    ("deberta_v2_classes", 0),
    ("modernbert_classes", 0),
    ("modernbert_mean", 3),
    ("albert_classes", 0),
    ("qwen3_reward", 4),
    (JUDGE, 4),
]
IDS = [1, 9, 27, 8, 44, 31, 2, 12, 38, 5, 2]
KEPT = [i in (0, 6, 10) for i in range(len(IDS))]
STEPS = 64


def of_label(model, embedding: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """The output of label 0, or the score of the judge, where `embedding` replaces that of the ids."""
    hook = model.get_input_embeddings().register_forward_hook(lambda *_: embedding[None])
    try:
        logits = model(input_ids=ids[None]).logits[0]
        return logits[0] if logits.dim() == 1 else logits[-1, WORDS[0]] - logits[-1, WORDS[1]]
    finally:
        hook.remove()


def case_of(name: str, baseline: int) -> dict:
    is_judge = name == JUDGE
    kind = transformers.AutoModelForCausalLM if is_judge else transformers.AutoModelForSequenceClassification
    model = kind.from_pretrained(GOLDENS / ("sentences" if is_judge else "heads") / name, attn_implementation="eager")
    model.double().eval()
    ids = torch.tensor(IDS) % model.config.vocab_size
    replaced = torch.where(torch.tensor(KEPT), ids, baseline)
    with torch.no_grad():
        to, start = (model.get_input_embeddings()(x) for x in (ids, replaced))
    points, weights = numpy.polynomial.legendre.leggauss(STEPS)
    total = torch.zeros_like(to)
    for point, weight in zip((points + 1) / 2, weights / 2, strict=True):
        at = (start + point * (to - start)).requires_grad_()
        total += weight * torch.autograd.grad(of_label(model, at, ids), at)[0]
    tokens = ((to - start) * total).sum(-1)
    ends = [of_label(model, x, ids).item() for x in (to, start)]
    print(name, "remainder", ends[0] - ends[1] - tokens.sum().item(), "of", ends[0] - ends[1])
    case = {"model": name, "ids": ids.tolist(), "keeps": KEPT, "baseline": baseline, "tokens": tokens.tolist(), "output": ends[0], "baseline_output": ends[1]}
    return case | ({"words": WORDS} if is_judge else {})


def main() -> None:
    write_cases(GOLDENS / "integrated_gradients.json", [case_of(*case) for case in CASES])
