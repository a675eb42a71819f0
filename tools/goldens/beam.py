"""Makes tests/goldens/beam.json: what transformers' generate finds with the models of tests/goldens/pairs.

    python tools/goldens beam
"""

import random
import warnings

import torch
import transformers
from goldens.files import GOLDENS, write_compact

MODELS = {
    "t5": transformers.T5ForConditionalGeneration,
    "bart": transformers.BartForConditionalGeneration,
    "mbart": transformers.MBartForConditionalGeneration,
    "marian_two": transformers.MarianMTModel,
    "m2m_100": transformers.M2M100ForConditionalGeneration,
}
CASES = 16  # of each model


def draw_options(rng: random.Random, vocab_size: int, end: int) -> dict:
    """One search, in the words of generation_config.json."""
    options = {
        "num_beams": rng.choice([1, 2, 3, 4, 5]),
        "length_penalty": rng.choice([0.0, 0.6, 1.0, 2.0, -0.5]),
        "early_stopping": rng.choice([False, True, "never"]),
        "min_new_tokens": rng.choice([0, 0, 3, 6]),
        "no_repeat_ngram_size": rng.choice([0, 0, 2, 3]),
        "max_new_tokens": rng.choice([4, 9, 15]),
        "repetition_penalty": rng.choice([1.0, 1.0, 1.3]),
    }
    options["num_return_sequences"] = rng.randint(1, options["num_beams"])
    if rng.random() < 0.3:
        options["forced_eos_token_id"] = end
    if rng.random() < 0.3:
        options["forced_bos_token_id"] = 5
    if rng.random() < 0.4:
        options["bad_words_ids"] = [[7], [8, 9], [vocab_size - 1]]
    if rng.random() < 0.3:
        options["suppress_tokens"] = [10, 11]
    return options


def run_case(model: transformers.PreTrainedModel, rng: random.Random) -> dict:
    config = model.config
    vocab_size = getattr(config, "decoder_vocab_size", None) or config.vocab_size
    source = [rng.randrange(3, config.vocab_size - 1) for _ in range(rng.randint(1, 12))]
    prompt = [config.decoder_start_token_id]
    prompt += [rng.randrange(3, vocab_size - 1) for _ in range(rng.choice([0, 0, 2]))]
    options = draw_options(rng, vocab_size, config.eos_token_id)
    if config.model_type == "m2m_100":  # its positions do not count pads, so they would depend on the cache
        options.setdefault("bad_words_ids", []).append([config.pad_token_id])
    beams = options["num_beams"] > 1
    if not beams:
        options["early_stopping"] = False
    model.generation_config = transformers.GenerationConfig(
        eos_token_id=config.eos_token_id, pad_token_id=config.pad_token_id, decoder_start_token_id=prompt[0]
    )
    settings = transformers.GenerationConfig(
        **options | {"min_new_tokens": options["min_new_tokens"] or None},
        do_sample=False,
        use_cache=False,
        return_dict_in_generate=True,
        output_scores=True,
        eos_token_id=config.eos_token_id,
        pad_token_id=config.pad_token_id,
        decoder_start_token_id=prompt[0],
    )
    with torch.no_grad():
        found = model.generate(
            torch.tensor([source]),
            attention_mask=torch.ones(1, len(source), dtype=torch.long),
            decoder_input_ids=torch.tensor([prompt]),
            generation_config=settings,
        )
    texts = [sequence[len(prompt) :].tolist() for sequence in found.sequences]
    texts = [text[: text.index(config.eos_token_id)] if config.eos_token_id in text else text for text in texts]
    case = {"source": source, "prompt": prompt, "end": config.eos_token_id, "options": options, "texts": texts}
    return case | ({"scores": found.sequences_scores.tolist()} if beams else {})


def main() -> None:
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    rng, goldens = random.Random(5), {}
    for name, kind in MODELS.items():
        model = kind.from_pretrained(GOLDENS / "pairs" / name).float().eval()
        goldens[name] = [run_case(model, rng) for _ in range(CASES)]
    write_compact(GOLDENS / "beam.json", goldens)
