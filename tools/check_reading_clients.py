#!/usr/bin/env python3
"""Checks the routes of rerankers, classifiers and embeddings with the clients that people use, unmodified:
tools/check_reading_clients.py build/vitrine

Serves models of tests/goldens and compares what each client returns with what the commands rerank, encode, classify and
similarity print: equal float32 values. Clients that are not installed are listed. The exit status is 1 if a check
fails. Needs any of: cohere, huggingface_hub and numpy, openai, requests, langchain-cohere, langchain-community,
llama-index-postprocessor-cohere-rerank, -jinaai-rerank and -tei-rerank,
llama-index-embeddings-text-embeddings-inference.
"""

import argparse
import contextlib
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile

QUERY = "a b"
DOCUMENTS = ["c d e", "a b", "x y z w", "q"]
GOLDENS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests", "goldens")


def write_tokenizer(folder):
    """Words of one letter, with [CLS] and [SEP]."""
    vocab = {"[PAD]": 0, "[CLS]": 1, "[SEP]": 2, "[UNK]": 3, "[MASK]": 4}
    vocab.update({chr(ord("a") + i): 5 + i for i in range(26)})
    tokenizer = {"model": {"type": "WordLevel", "unk_token": "[UNK]", "vocab": vocab},
                 "pre_tokenizer": {"type": "WhitespaceSplit"},
                 "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 2], "cls": ["[CLS]", 1]}}
    with open(os.path.join(folder, "tokenizer.json"), "w") as f:
        json.dump(tokenizer, f)


class Model:
    """A golden as a folder, and what the program prints for it."""

    def __init__(self, program, golden, parent):
        self.program = program
        self.path = os.path.join(parent, os.path.basename(golden))
        shutil.copytree(os.path.join(GOLDENS, golden), self.path)
        write_tokenizer(self.path)

    def json(self, command, *arguments):
        run = subprocess.run([self.program, command, self.path, *arguments, "--json"], check=True, capture_output=True)
        return json.loads(run.stdout)

    @contextlib.contextmanager
    def served(self):
        command = [self.program, "serve", self.path, "--name", "served", "--port", "0", "--json", "--access-log",
                   os.devnull]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            yield json.loads(server.stdout.readline())["url"]
        finally:
            server.terminate()
            server.communicate()
            if server.returncode != 0:
                raise RuntimeError(f"the server ended with status {server.returncode}")


def float32(x):
    return struct.unpack("f", struct.pack("f", x))[0]


def check_equal(got, expected):
    """Numbers as float32, and everything within lists."""
    if isinstance(expected, (list, tuple)):
        assert len(got) == len(expected), f"{len(got)} elements instead of {len(expected)}"
        for one, other in zip(got, expected):
            check_equal(one, other)
    elif isinstance(expected, float):
        assert float32(float(got)) == float32(expected), f"{got} instead of {expected}"
    else:
        assert got == expected, f"{got} instead of {expected}"


def ranking(model, top):
    return [(r["index"], r["score"]) for r in model.json("rerank", QUERY, *DOCUMENTS, "--top", str(top))["results"]]


# Checks of a reranker


def cohere_rerank(url, model):
    import cohere
    for client in (cohere.ClientV2("key", base_url=url), cohere.Client("key", base_url=url)):
        results = client.rerank(model="served", query=QUERY, documents=DOCUMENTS, top_n=3).results
        check_equal([(r.index, r.relevance_score) for r in results], ranking(model, 3))


def cohere_error(url, model):
    import cohere
    try:
        cohere.ClientV2("key", base_url=url).rerank(model="served", query=QUERY, documents=[])
    except cohere.errors.BadRequestError as e:
        assert "documents" in e.body["message"], e.body
        return
    raise AssertionError("no error")


def langchain_cohere(url, model):
    from langchain_cohere import CohereRerank
    from langchain_core.documents import Document
    rerank = CohereRerank(model="served", cohere_api_key="key", base_url=url, top_n=3)
    found = rerank.compress_documents([Document(page_content=text) for text in DOCUMENTS], QUERY)
    check_equal([(DOCUMENTS.index(d.page_content), d.metadata["relevance_score"]) for d in found], ranking(model, 3))


def langchain_jina(url, model):
    from langchain_community.document_compressors import jina_rerank
    from langchain_core.documents import Document
    jina_rerank.JINA_API_URL = url + "/v1/rerank"  # a constant of the module
    rerank = jina_rerank.JinaRerank(model="served", jina_api_key="key", top_n=3)
    found = rerank.compress_documents([Document(page_content=text) for text in DOCUMENTS], QUERY)
    check_equal([(DOCUMENTS.index(d.page_content), d.metadata["relevance_score"]) for d in found], ranking(model, 3))


def llama_index_nodes():
    from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
    return [NodeWithScore(node=TextNode(text=text)) for text in DOCUMENTS], QueryBundle(QUERY)


def check_nodes(found, model):
    check_equal([(DOCUMENTS.index(n.node.text), n.score) for n in found], ranking(model, 3))


def llama_index_cohere(url, model):
    from llama_index.postprocessor.cohere_rerank import CohereRerank
    nodes, query = llama_index_nodes()
    check_nodes(CohereRerank(model="served", api_key="key", base_url=url, top_n=3).postprocess_nodes(nodes, query),
                model)


def llama_index_jina(url, model):
    from llama_index.postprocessor.jinaai_rerank import JinaRerank
    nodes, query = llama_index_nodes()
    rerank = JinaRerank(model="served", api_key="key", base_url=url + "/v1", top_n=3)
    check_nodes(rerank.postprocess_nodes(nodes, query), model)


def llama_index_tei(url, model):
    from llama_index.postprocessor.tei_rerank import TextEmbeddingInference
    nodes, query = llama_index_nodes()
    check_nodes(TextEmbeddingInference(base_url=url, top_n=3).postprocess_nodes(nodes, query), model)


# Checks of a model of vectors


def vectors(model):
    return [model.json("encode", text)["embedding"] for text in DOCUMENTS]


def cohere_embed(url, model):
    import cohere
    found = cohere.ClientV2("key", base_url=url).embed(model="served", texts=DOCUMENTS, input_type="search_document",
                                                       embedding_types=["float"])
    check_equal(found.embeddings.float_, vectors(model))
    found = cohere.Client("key", base_url=url).embed(model="served", texts=DOCUMENTS, input_type="search_document")
    check_equal(found.embeddings, vectors(model))


def openai_embeddings(url, model):
    import openai
    client = openai.OpenAI(api_key="key", base_url=url + "/v1")
    found = client.embeddings.create(model="served", input=DOCUMENTS)  # as base64
    check_equal([e.embedding for e in found.data], vectors(model))
    found = client.embeddings.create(model="served", input=DOCUMENTS[0], dimensions=4, encoding_format="float")
    check_equal(found.data[0].embedding, model.json("encode", DOCUMENTS[0], "--dimensions", "4")["embedding"])
    try:
        client.embeddings.create(model="served", input=[])
    except openai.BadRequestError as e:
        assert e.param == "input", e
        return
    raise AssertionError("no error")


def hub_features(url, model):
    from huggingface_hub import InferenceClient
    for path in ("", "/embed"):
        client = InferenceClient(model=url + path)
        check_equal(client.feature_extraction(DOCUMENTS[0]).tolist(), [vectors(model)[0]])
        found = client.feature_extraction(DOCUMENTS[0], normalize=True, truncate=True, truncation_direction="left",
                                          dimensions=4)
        check_equal(found.tolist(), [model.json("encode", DOCUMENTS[0], "--dimensions", "4")["embedding"]])


def hub_similarity(url, model):
    from huggingface_hub import InferenceClient
    expected = model.json("similarity", QUERY, *DOCUMENTS)["similarities"][0][1:]
    for path in ("", "/similarity"):
        check_equal(InferenceClient(model=url + path).sentence_similarity(QUERY, DOCUMENTS), expected)


def langchain_cohere_embeddings(url, model):
    from langchain_cohere import CohereEmbeddings
    embeddings = CohereEmbeddings(model="served", cohere_api_key="key", base_url=url)
    check_equal(embeddings.embed_documents(DOCUMENTS), vectors(model))


def llama_index_embeddings(url, model):
    from llama_index.embeddings.text_embeddings_inference import TextEmbeddingsInference
    embedding = TextEmbeddingsInference(model_name="served", base_url=url, text_instruction=" ", query_instruction=" ")
    check_equal(embedding.get_text_embedding_batch(DOCUMENTS), vectors(model))


# Checks of a classifier


def hub_classes(url, model):
    from huggingface_hub import InferenceClient
    for path in ("", "/predict"):
        found = InferenceClient(model=url + path).text_classification(DOCUMENTS[0], top_k=2)
        expected = model.json("classify", DOCUMENTS[0], "--top", "2")["scores"][:2]
        check_equal([(f.label, f.score) for f in found], [(e["label"], e["score"]) for e in expected])


# Checks of a token classifier


def hub_tags(url, model):
    from huggingface_hub import InferenceClient
    fields = ("entity_group", "entity", "score", "word", "start", "end")
    text = " ".join(DOCUMENTS)
    for path in ("", "/predict"):
        client = InferenceClient(model=url + path)
        for how in (None, "none", "simple", "first", "average", "max"):
            found = client.token_classification(text, aggregation_strategy=how)
            expected = model.json("tag", text, *(["--aggregate", how] if how else []))["spans"]
            check_equal([[getattr(f, name) for name in fields] for f in found],
                        [[e.get(name) for name in fields] for e in expected])


CHECKS = [
    ("heads/distilbert_classes", [cohere_rerank, cohere_error, langchain_cohere, langchain_jina, llama_index_cohere,
                                  llama_index_jina, llama_index_tei]),
    ("masked/bert", [cohere_embed, openai_embeddings, hub_features, hub_similarity, langchain_cohere_embeddings,
                     llama_index_embeddings]),
    ("heads/bert_classes", [hub_classes]),
    ("heads/bert_tags", [hub_tags]),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vitrine")
    program = os.path.abspath(parser.parse_args().vitrine)
    failed = False
    with tempfile.TemporaryDirectory() as parent:
        for golden, checks in CHECKS:
            model = Model(program, golden, parent)
            with model.served() as url:
                for check in checks:
                    try:
                        check(url, model)
                        print(f"ok            {check.__name__}")
                    except ImportError as e:
                        print(f"not installed {check.__name__} ({e.name})")
                    except Exception as e:  # whatever a client throws
                        failed = True
                        print(f"FAILED        {check.__name__}: {type(e).__name__}: {e}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
