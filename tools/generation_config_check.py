#!/usr/bin/env python3
"""Compares random files generation_config.json with transformers.

    tools/generation_config_check.py MODEL [-n 2000] [--first 0] [--seed 0] [--vitrine build/vitrine]

MODEL is the folder of a small model, without a tokenizer or with one. Each file has some of the keys that transformers
documents, with values that change what is generated and values that do not. vitrine must write the ids of
`generate(do_sample=False)`, or refuse a key by name. Needs torch and transformers 5.24.
"""
import argparse, json, os, random, subprocess, sys, tempfile, warnings

import torch
import transformers


def random_config(r: random.Random, vocab: int, n_prompt: int, words: list[str]) -> dict:
    ids = lambda most: [r.choice([2, r.randrange(vocab), r.randrange(vocab)]) for _ in range(r.randint(1, most))]
    number = lambda low, high: round(r.uniform(low, high), 3)
    one_of = lambda *values: lambda: r.choice(values)
    keys = {
        # length
        "max_length": lambda: r.choice([n_prompt + r.randint(1, 12), None]),
        "max_new_tokens": lambda: r.choice([r.randint(1, 12), None]),
        "min_length": lambda: r.choice([0, n_prompt + r.randint(0, 10)]),
        "min_new_tokens": lambda: r.choice([None, r.randint(0, 8)]),
        "early_stopping": one_of(False, True, "never"),
        "max_time": one_of(None, 1000.0),
        "stop_strings": lambda: r.choice([None, r.choice(words), r.sample(words, 3)]) if words else None,
        # search
        "do_sample": one_of(False, True, None),
        "num_beams": one_of(1, 1, 2, 3),
        "num_return_sequences": one_of(1, 1, 2),
        "use_mtp": one_of(None, False),
        # sampling
        "temperature": one_of(1.0, 0.7, 0.0),
        "top_k": one_of(0, 50, 1, 5),
        "top_p": one_of(1.0, 0.0, 0.5),
        "min_p": one_of(None, 0.0, 0.1),
        "top_h": one_of(None, 0.4),
        "typical_p": one_of(1.0, 0.5),
        "epsilon_cutoff": one_of(0.0, 0.01),
        "eta_cutoff": one_of(0.0, 0.01),
        # logits
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
        "forced_eos_token_id": lambda: r.choice([None, 2, r.randrange(vocab), ids(2)]),
        "exponential_decay_length_penalty": lambda: r.choice([None, [r.randint(0, 5), number(1, 3)]]),
        "renormalize_logits": one_of(None, False, True),
        "remove_invalid_values": one_of(None, False, True),
        "guidance_scale": one_of(None, 1, 1.0, 1.5),
        "token_healing": one_of(None, False, True),
        "watermarking_config": one_of(None, {"greenlist_ratio": 0.25, "bias": 2.0}),
        # special tokens
        "eos_token_id": lambda: r.choice([2, None, [2, r.randrange(vocab)], r.randrange(vocab)]),
        "bos_token_id": lambda: r.choice([1, None, r.randrange(vocab)]),
        "pad_token_id": one_of(0, None, 3),
        # removed from transformers, but in published files
        "diversity_penalty": one_of(0.0, 0.5),
        "num_beam_groups": one_of(1, 2),
        "penalty_alpha": one_of(None, 0.0, 0.6),
        "dola_layers": one_of(None, "low"),
        "constraints": one_of(None),
        "force_words_ids": lambda: r.choice([None, [ids(1)]]),
        "low_memory": one_of(None, False, True),
        # how it is computed, and what is returned
        "use_cache": one_of(True, False),
        "cache_implementation": one_of(None, "dynamic"),
        "cache_config": one_of(None),
        "max_cache_len": one_of(None, 64),
        "prefill_chunk_size": one_of(None, 2),
        "compile_config": one_of(None),
        "disable_compile": one_of(None, True, False),
        "continuous_batching_config": one_of(None),
        "output_attentions": one_of(True, False),
        "output_hidden_states": one_of(True, False),
        "output_scores": one_of(True, False),
        "output_logits": one_of(True, False),
        "return_dict_in_generate": one_of(True, False),
        "is_assistant": one_of(None, False, True),
        "num_assistant_tokens": one_of(None, 20),
        "num_assistant_tokens_schedule": one_of(None, "constant"),
        "assistant_confidence_threshold": one_of(None, 0.4),
        "prompt_lookup_num_tokens": one_of(None, 3),
        "max_matching_ngram_size": one_of(None, 2),
        "assistant_early_exit": one_of(None, 1),
        "assistant_lookbehind": one_of(None, 10),
        "target_lookbehind": one_of(None, 10),
        "assistant_ensemble_weight": one_of(None, 0.5),
        "speculation_type": one_of(None),
        "transformers_version": one_of("4.30.0", "5.24.0"),
        "_from_model_config": one_of(True, False),
        "a_key_of_somebody": one_of(1, "text", None),
    }
    config = {"eos_token_id": 2}
    for key in r.sample(sorted(keys), r.randint(1, 6)):
        config[key] = None if r.random() < 0.05 else keys[key]()
    return config


def theirs(model, tokenizer, config: dict, prompt: list[int]) -> list[int]:
    model.generation_config = transformers.GenerationConfig.from_dict(dict(config))
    given = {"do_sample": False, "return_dict_in_generate": False, "tokenizer": tokenizer}
    if config.get("max_length") is None and config.get("max_new_tokens") is None:
        given["max_new_tokens"] = 12
    rows = model.generate(torch.tensor([prompt]), **given)
    new = rows[0].tolist()
    new = new[1:] if model.config.is_encoder_decoder else new[len(prompt) :]
    eos = model.generation_config.eos_token_id
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
    arguments.add_argument("--first", type=int, default=0, help="skip the files before this one")
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--vitrine", default="build/vitrine")
    a = arguments.parse_args()
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    config = transformers.AutoConfig.from_pretrained(a.model)
    kind = transformers.AutoModelForSeq2SeqLM if config.is_encoder_decoder else transformers.AutoModelForCausalLM
    model = kind.from_pretrained(a.model, dtype=torch.float32).eval()
    has_tokenizer = os.path.exists(os.path.join(a.model, "tokenizer.json"))
    tokenizer = transformers.AutoTokenizer.from_pretrained(a.model) if has_tokenizer else None
    words = [tokenizer.decode([i]) for i in range(3, config.vocab_size, 7)] if has_tokenizer else []
    n_layers = getattr(model.config, "num_hidden_layers", None)
    equal = refused = different = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in os.listdir(a.model):
            if name != "generation_config.json":
                os.symlink(os.path.abspath(os.path.join(a.model, name)), os.path.join(folder, name))
        for i in range(a.first, a.n):
            r = random.Random(a.seed * 1000003 + i)
            prompt = [r.randrange(3, config.vocab_size) for _ in range(r.randint(1, 9))]
            n_decoded = 1 if config.is_encoder_decoder else len(prompt)
            own = random_config(r, config.vocab_size, n_decoded, words)
            if config.is_encoder_decoder:
                own["decoder_start_token_id"] = config.decoder_start_token_id or 0
            if n_layers is not None:
                model.config.num_hidden_layers = n_layers  # a failed assistant_early_exit leaves its own
            try:
                right = theirs(model, tokenizer, own, prompt)
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
