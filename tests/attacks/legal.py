"""Legal requests of any size, for each rpc and HTTP route that takes a list or a text. `share` is the part of the largest size, 0 to 1."""

import dataclasses
import json
import random
import struct
from typing import Callable

from subject import ENCODER

# A little less than the largest message, also of an administrator; the most elements of a list; the
# longest text for an encoder, a transformation, and as a suite.
LARGE, ADMIN, ELEMENTS, TEXT, CHARACTERS, SUITE_BYTES = 31 << 20, 4_194_000, 65_536, 262_144, 20_000, 260_000
# Part of the texts of the largest message whose tokens fit into an answer.
TOKENIZED = 0.024
LOCAL = "all-MiniLM-L6-v2"
SENTENCE = "The small grey cat slept on the old bench near a station. "


@dataclasses.dataclass
class Row:
    """`path` of an rpc or of a POST, and the bytes of its message or body."""

    path: str
    what: str
    body: Callable[[float], bytes]
    is_http: bool = False

    @property
    def name(self):
        return f"{self.path.removeprefix('/isomer.')} ({self.what})"


def count(most, share):
    return max(1, int(most * share))


def sentences(bytes_of_each, number):
    return f"Number {number}. {SENTENCE * (bytes_of_each // len(SENTENCE) + 1)}"[:bytes_of_each]


def texts(share, each=8_000):
    return [sentences(each, number) for number in range(count(LARGE // (each + 100), share))]


def names(words):
    """Capitalised words, each different."""
    draw = random.Random(words)
    return " ".join("".join(draw.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(5)).capitalize() for _ in range(words))


def numbers(length, seed=1):
    draw = random.Random(seed)
    return [draw.random() for _ in range(length)]


class Requests:
    def __init__(self, modules):
        self.en, self.tr, self.ta, self.ru, self.st, self.ac, self.pr, self.co = (
            modules.message(f"isomer/{name}")
            for name in [
                "encoder/v1/encoder",
                "transform/v1/transform",
                "eval/v1/task",
                "eval/v1/run",
                "eval/v1/statistics",
                "gateway/v1/access",
                "gateway/v1/provider",
                "common/v1/common",
            ]
        )

    def all(self):
        return [*self.encoders(), *self.transforms(), *self.tasks(), *self.suites(), *self.statistics(), *self.admin(), *self.http()]

    @staticmethod
    def rpc(path, what, message):
        return Row(f"/isomer.{path}", what, lambda share: message(share).SerializeToString())

    def encoders(self):
        en, rpc = self.en, lambda name, what, message: self.rpc(f"encoder.v1.EncoderService/{name}", what, message)
        inputs = lambda share: [en.Input(text=text) for text in texts(share)]  # noqa: E731
        ids = lambda share: [en.TokenIds(ids=[30_000] * 64)] * count(4096, share)  # noqa: E731
        return [
            rpc("Encode", "texts", lambda share: en.EncodeRequest(encoder_id=ENCODER, inputs=inputs(share))),
            rpc("Encode", "short texts", lambda share: en.EncodeRequest(encoder_id=ENCODER, inputs=[en.Input(text="cat")] * count(ELEMENTS, share))),
            rpc("Encode", "one text", lambda share: en.EncodeRequest(encoder_id=ENCODER, inputs=[en.Input(text=sentences(count(LARGE, share), 1))])),
            rpc(
                "Encode",
                "a literal prompt",
                lambda share: en.EncodeRequest(
                    encoder_id=ENCODER, inputs=[en.Input(text="cat")] * 4_000, literal_prompt=sentences(count(8_000, share), 1)
                ),
            ),
            rpc("CountTokens", "texts", lambda share: en.CountTokensRequest(encoder_id=LOCAL, texts=texts(share))),
            rpc("Tokenize", "texts", lambda share: en.TokenizeRequest(encoder_id=LOCAL, texts=texts(share * TOKENIZED))),
            rpc("Tokenize", "a text without spaces", lambda share: en.TokenizeRequest(encoder_id=LOCAL, texts=["a" * count(TEXT, share)])),
            rpc("Detokenize", "token ids", lambda share: en.DetokenizeRequest(encoder_id=LOCAL, token_ids=ids(share))),
            rpc("Rerank", "documents", lambda share: en.RerankRequest(encoder_id=LOCAL, query="Which cat?", documents=texts(share))),
        ]

    def transforms(self):
        tr = self.tr
        rpc = lambda name, what, message: self.rpc(f"transform.v1.TransformService/{name}", what, message)  # noqa: E731
        augmentation = lambda name, message: self.rpc(f"transform.v1.AugmentationService/{name}", "texts", message)  # noqa: E731
        items = lambda share, each=CHARACTERS: [  # noqa: E731
            tr.TextItem(id=str(number), text=text) for number, text in enumerate(texts(share, each))
        ]
        spec = lambda generator="", **kind: tr.TransformSpec(transformation=tr.Transformation(**kind), generator_id=generator)  # noqa: E731
        stopwords, swap, keywords, paraphrase = tr.StopwordRemoval(), tr.MultiSwap(), tr.RandomKeywords(), tr.Paraphrase()
        sources = [tr.VariantSource(transformation=tr.Transformation(random_keywords=keywords), generator_id="none")]
        inspected = lambda original, transformed: tr.InspectRequest.Pair(  # noqa: E731
            original=original, transformed=transformed, expected_language="en"
        )
        kind = tr.Transformation(paraphrase=paraphrase)
        inspect = lambda pairs: tr.InspectRequest(pairs=pairs, transformation=kind)  # noqa: E731
        return [
            rpc("Transform", "texts, stopwords", lambda share: tr.TransformRequest(spec=spec(stopword_removal=stopwords), items=items(share))),
            rpc("Transform", "texts, swaps", lambda share: tr.TransformRequest(spec=spec(multi_swap=swap), items=items(share / 10))),
            rpc("Transform", "one text, swaps", lambda share: tr.TransformRequest(spec=spec(multi_swap=swap), items=items(0, count(CHARACTERS, share)))),
            rpc(
                "Transform", "one text, keywords", lambda share: tr.TransformRequest(spec=spec(random_keywords=keywords), items=items(0, count(CHARACTERS, share)))
            ),
            rpc("Estimate", "texts", lambda share: tr.EstimateRequest(spec=spec("writer", paraphrase=paraphrase), items=items(share))),
            rpc("Inspect", "a pair of names", lambda share: inspect([inspected(names(count(16_000, share)), names(count(15_999, share)))])),
            rpc("Inspect", "a pair", lambda share: inspect([inspected(sentences(count(99_000, share), 1), sentences(count(98_000, share), 2))])),
            rpc("Inspect", "pairs", lambda share: inspect([inspected(sentences(2_000, 1), sentences(1_900, 2))] * count(1_070, share))),
            rpc(
                "Judge",
                "pairs",
                lambda share: tr.JudgeRequest(
                    pairs=[tr.JudgeRequest.Pair(original=text, transformed=f"{text} It did.") for text in texts(share / 2, CHARACTERS - 100)],
                    scale=tr.JUDGE_SCALE_SIMILARITY,
                    generator_id="writer",
                ),
            ),
            augmentation("Augment", lambda share: tr.AugmentRequest(spec=tr.AugmentationSpec(sources=sources), items=items(share))),
            augmentation(
                "EncodeAugmented",
                lambda share: tr.EncodeAugmentedRequest(spec=tr.AugmentationSpec(sources=sources), items=items(share), encoder_id=ENCODER),
            ),
        ]

    def matrix(self, rows, cols=64, seed=1):
        draw = random.Random(seed)
        row = struct.pack(f"<{cols * 97}f", *(draw.random() - 0.5 for _ in range(cols * 97)))
        data = (row * (rows // 97 + 1))[: rows * cols * 4]
        return self.co.Matrix(rows=rows, cols=cols, dtype=self.co.DTYPE_F32, data=data)

    def tasks(self):
        ta, rpc = self.ta, lambda what, message: self.rpc("eval.v1.TaskService/Score", what, message)
        ids = lambda letter, n: [f"{letter}{number}" for number in range(n)]  # noqa: E731

        def lines(share):
            row = '{{"sentence1": "a cat number {0}", "sentence2": "a dog {0}", "score": {1}}}\n'
            content = "".join(row.format(number, number % 6) for number in range(count(LARGE // 90, share)))
            files = ta.InlineFiles(files=[ta.InlineFile(path="test.jsonl", content=content.encode())])
            return ta.ScoreRequest(
                task_type=ta.TASK_TYPE_STS, dataset=ta.DatasetInput(dataset=ta.DatasetRef(inline=files), encoder_id=ENCODER)
            )

        def retrieval(share):
            queries, documents = count(8_000, share**0.5), count(50_000, share**0.5)
            judged = [ta.RetrievalVectors.Judgement(query_id=f"q{n}", document_id=f"d{n % documents}", relevance=1) for n in range(queries)]
            vectors = ta.RetrievalVectors(
                queries=self.matrix(queries),
                documents=self.matrix(documents),
                query_ids=ids("q", queries),
                document_ids=ids("d", documents),
                judgements=judged,
            )
            return ta.ScoreRequest(task_type=ta.TASK_TYPE_RETRIEVAL, retrieval=vectors)

        def pairs(share):
            rows = count(50_000, share)
            vectors = ta.PairVectors(first=self.matrix(rows), second=self.matrix(rows, seed=2), labels=numbers(rows))
            return ta.ScoreRequest(task_type=ta.TASK_TYPE_STS, pairs=vectors)

        def clustering(share):
            rows = count(100_000, share)
            vectors = ta.ClusteringVectors(vectors=self.matrix(rows), labels=[f"l{n % 20}" for n in range(rows)])
            return ta.ScoreRequest(task_type=ta.TASK_TYPE_CLUSTERING, clustering=vectors)

        def classification(share):
            rows = count(50_000, share)
            labels = [f"l{n % 20}" for n in range(rows)]
            vectors = ta.ClassificationVectors(train=self.matrix(rows), train_labels=labels, test=self.matrix(rows), test_labels=labels)
            return ta.ScoreRequest(task_type=ta.TASK_TYPE_CLASSIFICATION, classification=vectors)

        return [
            rpc("a file", lines),
            rpc("pairs of vectors", pairs),
            rpc("retrieval, n = queries x documents", retrieval),
            rpc("clustering", clustering),
            rpc("classification", classification),
        ]

    def suites(self):
        ru = self.ru
        data = '[[dataset]]\ntask = "sts"\nbuiltin = "quick/sts"\n'
        seen = lambda values: ", ".join(json.dumps(value) for value in values)  # noqa: E731

        def row(what, toml, rpc="PlanRun"):
            request = getattr(ru, f"{rpc}Request")
            message = lambda share: request(spec=ru.RunSpec(suite=ru.SuiteRef(toml=toml(share)), encoder_ids=[ENCODER]))  # noqa: E731
            return self.rpc(f"eval.v1.RunService/{rpc}", what, message)

        suite = lambda more: f'name = "a"\n{more}\n{data}'  # noqa: E731
        plain = 'seeds = [1]\ntransformations = ["stopword_removal"]'
        return [
            row("seeds", lambda share: suite(f'transformations = ["stopword_removal"]\nseeds = [{seen(range(1, 1 + count(100, share)))}]')),
            row("encoders", lambda share: suite(f"{plain}\nencoders = [{seen(f'e{n}' for n in range(count(1_000, share)))}]")),
            row("data sets", lambda share: f'name = "a"\n{plain}\n' + "".join(f'{data}name = "d{n}"\n' for n in range(count(1_000, share)))),
            row("a comment", lambda share: suite(plain) + "#" * count(SUITE_BYTES, share)),
            row("a path of keys", lambda share: suite(plain) + "a" + ".a" * count(SUITE_BYTES // 2, share) + " = 1"),
            row("a comment", lambda share: suite(plain) + "#" * count(SUITE_BYTES, share), "CreateRun"),
        ]

    def statistics(self):
        st, rpc = self.st, lambda name, what, message: self.rpc(f"eval.v1.StatisticsService/{name}", what, message)
        series = lambda n, length: [st.ScoreSeries(name=str(s), values=numbers(length, s)) for s in range(n)]  # noqa: E731
        raters = lambda n: [  # noqa: E731
            st.AgreementRequest.Rater(name=str(s), ratings=[float(int(value * 30)) for value in numbers(n, s)]) for s in range(3)
        ]

        def compare(share):
            length = count(8_000, share)
            return st.CompareRequest(reference=series(1, length)[0], treatments=series(4, length), resamples=100)

        def bootstrap(statistic):
            def message(share):
                length = count(20_000, share)
                second = numbers(length, 2) if statistic in (st.BOOTSTRAP_STATISTIC_SPEARMAN, st.BOOTSTRAP_STATISTIC_KENDALL) else []
                return st.BootstrapRequest(values=numbers(length), second=second, statistic=statistic, resamples=100)

            return message

        def correlate(share):
            x, y = series(2, count(100_000, share))
            return st.CorrelateRequest(x=x, y=y, resamples=20)

        return [
            rpc("Compare", "values", compare),
            rpc("RankStability", "data sets", lambda share: st.RankStabilityRequest(original=series(20, count(20_000, share)), transformed=series(20, count(20_000, share)))),
            rpc("Agreement", "items", lambda share: st.AgreementRequest(raters=raters(count(135_000, share)))),
            rpc("Reliability", "items", lambda share: st.ReliabilityRequest(encoders=series(20, count(10_000, share)), splits=100)),
            rpc("ComparePairs", "n = pairs of systems", lambda share: st.ComparePairsRequest(systems=series(count(100, share**0.5), 50), resamples=50)),
            rpc("CompareRanks", "data sets", lambda share: st.CompareRanksRequest(systems=series(20, count(50_000, share)))),
            rpc("CompareRanks", "n = pairs of systems", lambda share: st.CompareRanksRequest(systems=series(count(100, share**0.5), 500))),
            rpc("AdjustPValues", "values", lambda share: st.AdjustPValuesRequest(p_values=numbers(count(1_000_000, share)))),
            rpc("Bootstrap", "Spearman", bootstrap(st.BOOTSTRAP_STATISTIC_SPEARMAN)),
            rpc("Bootstrap", "Kendall", bootstrap(st.BOOTSTRAP_STATISTIC_KENDALL)),
            rpc("Bootstrap", "Hodges-Lehmann", bootstrap(st.BOOTSTRAP_STATISTIC_HODGES_LEHMANN)),
            rpc("Correlate", "values", correlate),
            rpc("PlanDesign", "data sets", lambda share: st.PlanDesignRequest(differences=series(count(20_000, share), 20), effect=1e-6)),
        ]

    def admin(self):
        ac, pr = self.ac, self.pr
        key = lambda name, message: self.rpc(f"gateway.v1.AccessService/{name}", "a name", message)  # noqa: E731
        scopes = [ac.ACCESS_SCOPE_ENCODE]
        budgets = lambda share: [ac.KeyBudget(per=ac.BUDGET_PERIOD_DAY, tokens=1)] * count(10_000, share)  # noqa: E731
        provider = lambda **more: pr.Provider(id="p", kind=pr.PROVIDER_KIND_OPENAI, address="http://127.0.0.1:9/v1", **more)  # noqa: E731
        rpc = lambda name, what, message: self.rpc(f"gateway.v1.ProviderService/{name}", what, message)  # noqa: E731
        return [
            key("CreateKey", lambda share: ac.CreateKeyRequest(key=ac.ApiKey(name="a" * count(ADMIN, share), scopes=scopes))),
            self.rpc(
                "gateway.v1.AccessService/CreateKey",
                "budgets",
                lambda share: ac.CreateKeyRequest(key=ac.ApiKey(name="a", scopes=scopes, limits=ac.KeyLimits(budgets=budgets(share)))),
            ),
            rpc(
                "CreateProvider",
                "encoders",
                lambda share: pr.CreateProviderRequest(provider=provider(encoders={f"e{n}": "stub" for n in range(count(1_000, share))})),
            ),
            rpc(
                "CheckProvider",
                "headers",
                lambda share: pr.CheckProviderRequest(
                    candidate=provider(encoders={"a": "stub"}, headers={f"h-{n}": "a" for n in range(count(1_000, share))})
                ),
            ),
        ]

    @staticmethod
    def http():
        row = lambda path, what, body: Row(path, what, lambda share: json.dumps(body(share)).encode(), True)  # noqa: E731
        many = lambda share: ["cat"] * count(ELEMENTS, share)  # noqa: E731
        ids = lambda share: [[30_000] * 250] * count(1000, share)  # noqa: E731
        embed = lambda **more: {"model": ENCODER, "input": "a cat"} | more  # noqa: E731
        return [
            row("/v1/embeddings", "texts", lambda share: embed(input=texts(share))),
            row("/v1/embeddings", "short texts", lambda share: embed(input=many(share))),
            row("/v1/embeddings", "token ids", lambda share: embed(input=ids(share), model=LOCAL)),
            row("/v1/embeddings", "transformations", lambda share: embed(augment={"transformations": ["paraphrase"] * count(ELEMENTS, share)})),
            row("/v1/embeddings", "an unknown transformation", lambda share: embed(augment={"transformations": ["a" * count(LARGE, share)]})),
            row("/v1/rerank", "documents", lambda share: {"model": LOCAL, "query": "Which cat?", "documents": texts(share)}),
            row("/v2/embed", "texts", lambda share: {"model": ENCODER, "texts": texts(share), "input_type": "clustering"}),
            row("/api/embed", "texts", lambda share: embed(input=texts(share))),
            row("/api/embed", "options", lambda share: embed(options={"x": [[]] * count(LARGE // 4, share)})),
            row(f"/tei/{ENCODER}/embed", "texts", lambda share: {"inputs": texts(share)}),
            row(f"/tei/{LOCAL}/tokenize", "texts", lambda share: {"inputs": texts(share * TOKENIZED)}),
            row(f"/tei/{LOCAL}/decode", "token ids", lambda share: {"ids": ids(share)}),
            row(
                f"/tei/{ENCODER}/similarity",
                "texts",
                lambda share: {"inputs": {"source_sentence": "A cat.", "sentences": texts(share)}},
            ),
            row(
                "/isomer.encoder.v1.EncoderService/Encode",
                "JSON",
                lambda share: {"encoderId": ENCODER, "inputs": [{"text": text} for text in texts(share)]},
            ),
        ]
