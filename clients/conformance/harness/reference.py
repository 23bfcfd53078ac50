"""Expected results: from the stub's rules, from a real server through bare generated stubs, from
the command line."""

import ast
import json
import struct

import grpc

from isomer_client.proto.common.v1 import common_pb2
from isomer_client.proto.encoder.v1 import encoder_pb2, encoder_pb2_grpc
from isomer_client.proto.eval.v1 import task_pb2, task_pb2_grpc
from isomer_client.proto.transform.v1 import transform_pb2, transform_pb2_grpc

from . import stub, vectors

DTYPES = {"f16": common_pb2.DTYPE_F16, "ubinary": common_pb2.DTYPE_UBINARY, "int8": common_pb2.DTYPE_INT8}


class Reference:
    """Answers without any client of ours between: one text a request."""

    def __init__(self, servers):
        self._servers = servers
        options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
        self._plain = grpc.insecure_channel(servers.names["plain"], options)
        self._gateway = grpc.insecure_channel(servers.names["gateway"], options)
        self._key = (("authorization", f"Bearer {servers.names['all']}"),)
        self._encoder = encoder_pb2_grpc.EncoderServiceStub(self._plain)
        self._kept = {}

    def close(self):
        self._plain.close()
        self._gateway.close()

    def rows(self, how, step, expect):
        """Digests of the rows that are due for a step."""
        key = json.dumps([how, step, expect.get("prompt")], sort_keys=True)
        if key not in self._kept:
            made = getattr(self, f"_{how.replace(' ', '_')}")(step, expect)
            self._kept[key] = [vectors.digest(row) for row in made]
        return self._kept[key]

    def _stub(self, step, expect):
        columns = step.get("dimensions", 131072 if step["encoder"] == "wide" else vectors.DIMENSIONS)
        rows = [vectors.vector(text, expect.get("prompt", ""), columns) for text in step["texts"]]
        for place in expect.get("zero_rows", []):
            rows[place] = bytes(4 * columns)
        return rows

    def _stub_tokens(self, step, _):
        return [row for text in step["texts"] for row in vectors.token_vectors(text)]

    def _request(self, step, text):
        request = encoder_pb2.EncodeRequest(encoder_id=step["encoder"], inputs=[encoder_pb2.Input(text=text)])
        request.output_dtype = DTYPES.get(step.get("dtype"), common_pb2.DTYPE_F32)
        if "normalise" in step:
            request.normalise = step["normalise"]
        if step["op"] == "encode_tokens":
            request.output = encoder_pb2.OUTPUT_TOKEN_VECTORS
        return request

    def _server(self, step, _):
        rows = []
        for text in step["texts"]:
            matrix = self._encoder.Encode(self._request(step, text), timeout=60).embeddings
            width = len(matrix.data) // matrix.rows
            rows += [matrix.data[start : start + width] for start in range(0, len(matrix.data), width)]
        return rows

    def outputs(self, step, how):
        """Expected results of a step, from the stub's rules or from a real server."""
        key = json.dumps(["outputs", how, step], sort_keys=True)
        if key not in self._kept:
            self._kept[key] = (self._stub_outputs if how == "stub" else self._server_outputs)(step)
        return self._kept[key]

    @staticmethod
    def _stub_outputs(step):
        due, spaces = {}, {}
        texts, outputs = step["texts"], step["outputs"]
        if "text_vector" in outputs:
            columns = step.get("dimensions", vectors.DIMENSIONS)
            due["rows"] = [vectors.digest(vectors.vector(text, dimensions=columns)) for text in texts]
            spaces["text_vector"] = stub.space("a", "", columns).digest
        if "sparse" in outputs:
            entries = (vectors.sparse_vector(text, step.get("max_active_dimensions")) for text in texts)
            due["sparse"] = [vectors.digest(vectors.sparse_row(one)) for one in entries]
            spaces["sparse"] = stub.space("sparse", "", 1 << 16).digest
        if "token_vectors" in outputs:
            due["token_rows"] = [vectors.digest(row) for text in texts for row in vectors.token_vectors(text)]
            due["counts"] = [len(vectors.token_vectors(text)) for text in texts]
            spaces["token_vectors"] = stub.space("tokens", "", vectors.DIMENSIONS).digest
        return {**due, "spaces": spaces}

    def _server_outputs(self, step):
        due = {"rows": [], "sparse": [], "token_rows": [], "counts": []}
        spaces = {}
        for text in step["texts"]:
            request = encoder_pb2.EncodeRequest(encoder_id=step["encoder"], inputs=[encoder_pb2.Input(text=text)])
            request.outputs.extend(encoder_pb2.Output.Value(f"OUTPUT_{output.upper()}") for output in step["outputs"])
            if "max_active_dimensions" in step:
                request.max_active_dimensions = step["max_active_dimensions"]
            answer = self._encoder.Encode(request, timeout=60)
            for name, matrix in (("rows", answer.embeddings), ("token_rows", answer.token_embeddings)):
                width = 4 * matrix.cols or 1
                due[name] += [vectors.digest(matrix.data[start : start + width]) for start in range(0, len(matrix.data), width)]
            due["sparse"] += [vectors.digest(vectors.sparse_row(list(zip(one.indices, one.values)))) for one in answer.sparse_embeddings]
            due["counts"] += list(answer.row_counts)
            spaces = {
                "text_vector": answer.vector_space.digest,
                "sparse": answer.sparse_vector_space.digest,
                "token_vectors": answer.token_vector_space.digest,
            }
        return {**{name: value for name, value in due.items() if value}, "spaces": {name: digest for name, digest in spaces.items() if digest}}

    def _command_line(self, step, _):
        server = self._servers.plain
        source, output = self._servers.folder / "texts.jsonl", self._servers.folder / "vectors.npy"
        source.write_text("".join(json.dumps({"text": text}) + "\n" for text in step["texts"]), encoding="utf-8")
        server.run("embed", "--config", str(server._config), "--model", step["encoder"], "--input", str(source), "--output", str(output))
        return read_npy(output)

    def _server_augmented(self, step, _):
        stub = transform_pb2_grpc.AugmentationServiceStub(self._gateway)
        sources = []
        for source in step["sources"]:
            kind = transform_pb2.Transformation()
            getattr(kind, source["transformation"]).SetInParent()
            sources.append(transform_pb2.VariantSource(generator_id=source.get("generator", ""), transformation=kind))
        rows = []
        for text in step["texts"]:
            request = transform_pb2.EncodeAugmentedRequest(
                spec=transform_pb2.AugmentationSpec(sources=sources),
                items=[transform_pb2.TextItem(text=text)],
                encoder_id=step["encoder"],
                pooling=transform_pb2.AUGMENTATION_POOLING_WEIGHTED,
                original_weight=step["original_weight"],
            )
            rows.append(stub.EncodeAugmented(request, metadata=self._key, timeout=60).embeddings.data)
        return rows

    def value(self, step):
        """Expected answer of a runner for a step that has no rows, from the server."""
        return getattr(self, f"_value_{step['op']}")(step)

    def _value_count_tokens(self, step):
        request = encoder_pb2.CountTokensRequest(encoder_id=step["encoder"], texts=step["texts"])
        return {"token_counts": list(self._encoder.CountTokens(request, timeout=60).token_counts)}

    def _value_tokenize(self, step):
        request = encoder_pb2.TokenizeRequest(encoder_id=step["encoder"], texts=step["texts"])
        return {"ids": [[token.id for token in text.tokens] for text in self._encoder.Tokenize(request, timeout=60).texts]}

    def _value_rerank(self, step):
        request = encoder_pb2.RerankRequest(encoder_id=step["encoder"], query=step["query"], documents=step["documents"])
        return {"ranking": [[one.index, one.score] for one in self._encoder.Rerank(request, timeout=60).results]}

    def _value_transform(self, step):
        kind = transform_pb2.Transformation()
        getattr(kind, step["transformation"]).SetInParent()
        items = [transform_pb2.TextItem(text=text) for text in step["texts"]]
        request = transform_pb2.TransformRequest(spec=transform_pb2.TransformSpec(transformation=kind), items=items)
        answer = transform_pb2_grpc.TransformServiceStub(self._gateway).Transform(request, metadata=self._key, timeout=60)
        return {"texts": [result.text for result in answer.results], "indices": [result.index for result in answer.results]}

    def _value_score_dataset(self, step):
        inputs = task_pb2.DatasetInput(dataset=task_pb2.DatasetRef(named=step["dataset"]), encoder_id=step["encoder"], limit=step["limit"])
        request = task_pb2.ScoreRequest(dataset=inputs, task_type=task_pb2.TASK_TYPE_STS)
        answer = task_pb2_grpc.TaskServiceStub(self._gateway).Score(request, metadata=self._key, timeout=60)
        return {"main_score_key": answer.main_score_key, "main_score": answer.main_score, "items": answer.items}


def read_npy(path):
    """Rows of a two-dimensional array of 32-bit floats in numpy's format, as bytes."""
    data = path.read_bytes()
    (length,) = struct.unpack("<H", data[8:10])
    header = ast.literal_eval(data[10 : 10 + length].decode())
    rows, columns = header["shape"]
    assert header["descr"] == "<f4" and not header["fortran_order"]
    body = data[10 + length :]
    return [body[4 * columns * row : 4 * columns * (row + 1)] for row in range(rows)]
