"""Makes tests/goldens/score.json: the scores, tokens and lower case of sacreBLEU 2.6.0 for small texts.

    python tools/goldens score

Needs the package `sacrebleu`.
"""

import json
import logging

import sacrebleu
from goldens.files import GOLDENS
from sacrebleu.metrics import BLEU, CHRF

TOKENIZERS = ["13a", "intl", "char", "none"]

# Pairs of a hypothesis and its reference.
CORPORA = {
    "plain": [
        ("The cat sat on the mat.", "The cat is sitting on the mat."),
        ("A dog runs across the green field today", "A dog is running across the green field."),
        ("Two men are talking to each other.", "Two men are talking to each other."),
    ],
    "punctuation": [
        ('He said: "No, thanks" (and left).', "He said: 'No, thanks' - and left!"),
        ("What?!... Well; that's it/that", "What?! Well... that's it / that"),
        ("{a} [b] <c> ~d~ `e` |f| ^g^ _h_ @i #j $k %l *m +n =o \\p", "(a) [b] {c} -d- 'e' |f| ^g^ _h_ @i #j $k"),
    ],
    "numbers": [
        ("It costs 1,000.50 dollars, or 3-4 euros.", "It costs 1,000.5 dollars or 3 - 4 euros."),
        ("In 1999. Then 2,5 and .5 and 5. and 1..2 and 7,,8", "In 1999. Then 2.5 and .5 and 5 and 1.2 and 7,8"),
        ("½ of Ⅷ is ٣, x² = 4-", "1/2 of Ⅷ is ٣. x² = 4"),
    ],
    "entities": [
        ("&quot;Tom &amp; Jerry&quot; &lt;3 &gt;", '"Tom & Jerry" <3 >'),
        ("a <skipped> word &amp;lt; &apos;x&apos;", "a word &lt; 'x'"),
        ("<ski<skipped>pped> ends", "<skipped> ends"),
    ],
    "unicode": [
        ("今天天气很好。我们去公园吧！", "今天天气不错，我们去公园。"),
        ("I 😀 like 👍🏽 flags 🇩🇪!", "I like 👍🏽 flags 😀 🇩🇪"),
        ("Zoë ging naar café «Ångström» — gestern…", "Zoe ging naar cafe „Ångström“ – gestern ..."),
        ("e\u0301 and a\u00a0b\u3000c\u200bd\u2028e\u001cf", "é and a b c\u200bd e f"),
        ("100 € ≤ 5 £ + 3 ¥", "100€ ≤5£+3¥"),
    ],
    "case": [
        ("THE HOUSE IN STRASSE İZMİR IS BIG", "The house in Straße izmir is big"),
        ("ΟΔΥΣΣΕΥΣ ΣΑΣ. Σ ΑΣ' ΑΣΒ", "Οδυσσεύς σας. σ ας' ασβ"),
    ],
    "empty": [
        ("", "Nothing was translated here."),
        ("a b c d e f", ""),
        ("   ", "  \t"),
        ("one two three four", "one two three four five"),
    ],
    "no matches": [("xyz", "The cat sat on the mat."), ("quv", "Two dogs")],
    "no text": [("", "The cat sat on the mat."), (" ", "Two dogs")],
    "too short": [("The cat", "The cat"), ("on", "on the mat")],
    "no long matches": [("a b x c d y e f z", "a b c d e f g h i j k l"), ("q r", "r q")],
    "trailing space": [("The end. ", "The end.\r"), ("Really?\t", " Really? ")],
}


def score(pairs: list[tuple[str, str]], tokenizer: str, lowercase: bool) -> dict:
    # The command `sacrebleu` removes white space at the end of each line.
    hypotheses, references = ([pair[i].rstrip() for pair in pairs] for i in (0, 1))
    bleu = BLEU(tokenize=tokenizer, lowercase=lowercase)
    found = bleu.corpus_score(hypotheses, [references])
    chrf = [CHRF(word_order=n, lowercase=lowercase).corpus_score(hypotheses, [references]).score for n in (0, 2)]
    return {
        "tokenize": tokenizer,
        "lowercase": lowercase,
        "bleu": found.score,
        "precisions": found.precisions,
        "brevity_penalty": found.bp,
        "lengths": [found.sys_len, found.ref_len],
        "chrf": chrf[0],
        "chrf++": chrf[1],
        "signature": str(bleu.get_signature()).rsplit("|version:", 1)[0],
    }


def tokens(line: str, tokenizer: str) -> str:
    return " ".join(BLEU(tokenize=tokenizer).tokenizer(line.rstrip()).split())


def main() -> None:
    assert sacrebleu.__version__ == "2.6.0"
    logging.disable(logging.WARNING)
    corpora = []
    for name, pairs in CORPORA.items():
        scores = [score(pairs, tokenizer, lowercase) for tokenizer in TOKENIZERS for lowercase in (False, True)]
        corpora.append({"name": name, "pairs": pairs, "scores": scores})
    lines = sorted({line for pairs in CORPORA.values() for pair in pairs for line in pair})
    made = [
        {"line": line, "lowercase": line.lower()} | {tokenizer: tokens(line, tokenizer) for tokenizer in TOKENIZERS}
        for line in lines
    ]
    (GOLDENS / "score.json").write_text(json.dumps({"corpora": corpora, "lines": made}, ensure_ascii=False) + "\n")
