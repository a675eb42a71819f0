#!/usr/bin/env python3
"""Compares random files generation_config.json with transformers.

    tools/generation_config_check.py MODEL [-n 2000] [--seed 0] [--vitrine build/vitrine]

MODEL is the folder of a small model, without a tokenizer or with one. Each file has some of the keys that transformers
documents, with values that change what is generated and values that do not. vitrine must write the ids of
`generate(do_sample=False)`, or refuse a key by name. Needs torch and transformers 5.24.
"""
import argparse, json, os, random, subprocess, sys, tempfile, warnings

import torch
import transformers


def random_config(r: random.Random, vocab: int, n_prompt: int) -> dict:
    ids = lambda most: [r.randrange(3, vocab) for _ in range(r.randint(1, most))]
    number = lambda low, high: round(r.uniform(low, high), 3)
    keys = {
        "max_length": lambda: r.choice([n_prompt + r.randint(1, 12), None]),
        "max_new_tokens": lambda: r.choice([r.randint(1, 12), None]),
        "min_length": lambda: r.choice([0, n_prompt + r.randint(0, 10)]),
        "min_new_tokens": lambda: r.choice([None, r.randint(0, 8)]),
        "num_beams": lambda: r.choice([1, 1, 2, 3]),
        "early_stopping": lambda: r.choice([False, True, "never"]),
        "length_penalty": lambda: r.choice([1.0, 0.0, number(-1, 2)]),
        "repetition_penalty": lambda: r.choice([1.0, number(0.7, 2)]),
        "encoder_repetition_penalty": lambda: r.choice([1.0, number(0.5, 2)]),
        "no_repeat_ngram_size": lambda: r.randint(0, 3),
        "encoder_no_repeat_ngram_size": lambda: r.randint(0, 3),
        "bad_words_ids": lambda: r.choice([None, [ids(2) for _ in range(r.randint(1, 3))]]),
        "sequence_bias": lambda: r.choice([None, [[ids(2), number(-9, 9)] for _ in range(r.randint(1, 4))]]),
        "suppress_tokens": lambda: r.choice([None, ids(9)]),
        "begin_suppress_tokens": lambda: r.choice([None, ids(9)]),
        "forced_bos_token_id": lambda: r.choice([None, r.randrange(vocab)]),
        "forced_eos_token_id": lambda: r.choice([None, 2, r.randrange(vocab)]),
        "exponential_decay_length_penalty": lambda: r.choice([None, [r.randint(0, 5), number(1, 3)]]),
        "eos_token_id": lambda: r.choice([2, [2, r.randrange(vocab)], r.randrange(vocab)]),
        "do_sample": lambda: False,
        "temperature": lambda: r.choice([1.0, 0.7]),
        "top_k": lambda: r.choice([0, 50, 1, 5]),
        "top_p": lambda: r.choice([1.0, 0.0, 0.5]),
        "min_p": lambda: r.choice([None, 0.0, 0.1]),
        "typical_p": lambda: r.choice([1.0, 0.5]),
        "epsilon_cutoff": lambda: r.choice([0.0, 0.01]),
        "eta_cutoff": lambda: r.choice([0.0, 0.01]),
        "top_h": lambda: None,
        "renormalize_logits": lambda: r.choice([None, False, True]),
        "remove_invalid_values": lambda: r.choice([None, False, True]),
        "guidance_scale": lambda: r.choice([None, 1, 1.0]),
        "diversity_penalty": lambda: 0.0,
        "num_beam_groups": lambda: 1,
        "penalty_alpha": lambda: None,
        "use_cache": lambda: r.choice([True, False]),
        "num_return_sequences": lambda: 1,
        "output_scores": lambda: r.choice([True, False]),
        "watermarking_config": lambda: None,
        "token_healing": lambda: r.choice([None, False]),
        "pad_token_id": lambda: 0,
        "a_key_of_somebody": lambda: r.choice([1, "text", None]),
    }
    config = {"eos_token_id": 2}
    for key in r.sample(sorted(keys), r.randint(1, 6)):
        config[key] = keys[key]()
    return config


def theirs(model, config: dict, prompt: list[int]) -> list[int]:
    model.generation_config = transformers.GenerationConfig.from_dict(dict(config))
    given = {"do_sample": False, "return_dict_in_generate": False}
    if config.get("max_length") is None and config.get("max_new_tokens") is None:
        given["max_new_tokens"] = 12
    rows = model.generate(torch.tensor([prompt]), **given)
    new = rows[0].tolist()
    new = new[1:] if model.config.is_encoder_decoder else new[len(prompt) :]
    eos = config["eos_token_id"]
    for i, id in enumerate(new):
        if id in (eos if isinstance(eos, list) else [eos]):
            return new[:i]
    return new


def ours(program: str, folder: str, config: dict, prompt: list[int]) -> tuple[list[int] | None, str]:
    with open(os.path.join(folder, "generation_config.json"), "w") as file:
        json.dump(config, file)
    command = [program, "generate", folder, "--ids", ",".join(map(str, prompt)), "--greedy", "--json", "--threads", "1"]
    if config.get("max_length") is None and config.get("max_new_tokens") is None:
        command += ["--max-tokens", "12"]
    run = subprocess.run(command, capture_output=True, text=True)
    return (json.loads(run.stdout)["ids"], "") if run.returncode == 0 else (None, run.stderr.strip())


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("model")
    arguments.add_argument("-n", type=int, default=2000)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--vitrine", default="build/vitrine")
    a = arguments.parse_args()
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    config = transformers.AutoConfig.from_pretrained(a.model)
    kind = transformers.AutoModelForSeq2SeqLM if config.is_encoder_decoder else transformers.AutoModelForCausalLM
    model = kind.from_pretrained(a.model, dtype=torch.float32).eval()
    equal = refused = different = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in os.listdir(a.model):
            if name != "generation_config.json":
                os.symlink(os.path.abspath(os.path.join(a.model, name)), os.path.join(folder, name))
        for i in range(a.n):
            r = random.Random(a.seed * 1000003 + i)
            prompt = [r.randrange(3, config.vocab_size) for _ in range(r.randint(1, 9))]
            n_decoded = 1 if config.is_encoder_decoder else len(prompt)
            own = random_config(r, config.vocab_size, n_decoded)
            if config.is_encoder_decoder:
                own["decoder_start_token_id"] = config.decoder_start_token_id or 0
            try:
                right = theirs(model, own, prompt)
            except (ValueError, RuntimeError, TypeError, IndexError) as error:
                right = None
                why = str(error)
            got, message = ours(a.vitrine, folder, own, prompt)
            if got is None:
                named = right is None or any(key in message for key in own)
                refused += named
                different += not named
                if not named:
                    print(json.dumps(own), prompt, "right", right, "error", message)
            elif right is None or got == right:
                equal += right is not None
                refused += right is None
            else:
                different += 1
                print(json.dumps(own), prompt, "right", right, "got", got)
    print(f"{equal} equal, {refused} refused by one of both, {different} different")
    return different > 0


if __name__ == "__main__":
    sys.exit(main())
