"""Retrieval with LangChain, LlamaIndex and Haystack, each through its own integration of each store. A pipeline writes documents with
one embedder and searches with another: what is augmented is a matter of the embedder alone."""

from __future__ import annotations

import dataclasses
import pathlib
import urllib.parse
from collections.abc import Callable
from typing import Any

from isomer_client import Client
from isomer_client.integrations.vectors import Gase

K = 10
# Maximum number of rows that Chroma takes at once.
ROWS = 2000


@dataclasses.dataclass
class Place:
    """Where the stores are, and the encoder."""

    postgres: str
    chroma: int
    folder: pathlib.Path
    client: Client
    address: str
    encoder: str
    dimensions: int


Search = Callable[[str], list[str]]


@dataclasses.dataclass
class Pipeline:
    """`write` stores documents by key; `open` gives a search with an embedder of its own."""

    write: Callable[[dict[str, str], Gase | None], None]
    open: Callable[[Gase | None], Search]


def parts(documents: dict[str, str]):
    keys = list(documents)
    for start in range(0, len(keys), ROWS):
        yield {key: documents[key] for key in keys[start : start + ROWS]}


MILVUS: dict[str, Any] = {}


def shared_connection(file: pathlib.Path) -> str:
    """The address of a file of Milvus Lite, whose server runs as long as a client of it is held here. langchain-milvus 0.3 looks for
    its client's connection under a name that pymilvus 2.6.17 does not give it any more: it is given here."""
    from pymilvus import MilvusClient, connections

    uri = str(file)
    if uri not in MILVUS:
        MILVUS[uri] = MilvusClient(uri)
        connections._alias_handlers[MILVUS[uri]._using] = MILVUS[uri]._handler
    return uri


# LangChain

def langchain(store: str, place: Place, name: str) -> Pipeline:
    from isomer_client.integrations.langchain import IsomerEmbeddings

    def embeddings(gase: Gase | None):
        return IsomerEmbeddings(place.encoder, place.client, gase=gase)

    def opened(gase: Gase | None) -> Any:
        if store == "pgvector":
            from langchain_postgres import PGVector

            url = place.postgres.replace("postgres://", "postgresql+psycopg://")
            return PGVector(embeddings(gase), connection=url, collection_name=name, embedding_length=place.dimensions)
        if store == "Chroma":
            from langchain_chroma import Chroma

            return Chroma(name, embeddings(gase), host="127.0.0.1", port=place.chroma, collection_configuration={"hnsw": {"space": "cosine"}})
        if store == "LanceDB":
            from langchain_lancedb import LanceDB

            return LanceDB(embedding_function=embeddings(gase), uri=place.folder / "lance-langchain", table_name=name)
        from langchain_milvus import Milvus

        flat = {"index_type": "FLAT", "metric_type": "COSINE", "params": {}}
        uri = shared_connection(place.folder / "milvus-langchain.db")
        return Milvus(embeddings(gase), collection_name=name, connection_args={"uri": uri}, index_params=flat)

    def write(documents: dict[str, str], gase: Gase | None) -> None:
        into = opened(gase)
        # Ids with the collection's name: PGVector's are those of all collections together.
        for some in parts(documents):
            into.add_texts(list(some.values()), metadatas=[{"key": key} for key in some], ids=[f"{name} {key}" for key in some])

    def search(gase: Gase | None) -> Search:
        retriever = opened(gase).as_retriever(search_kwargs={"k": K})
        return lambda query: [document.metadata["key"] for document in retriever.invoke(query)]

    return Pipeline(write, search)


# LlamaIndex


def llama_index(store: str, place: Place, name: str) -> Pipeline:
    from isomer_client.integrations.llama_index import IsomerEmbedding
    from llama_index.core import StorageContext, VectorStoreIndex
    from llama_index.core.schema import TextNode

    def vector_store() -> Any:
        if store == "pgvector":
            from llama_index.vector_stores.postgres import PGVectorStore

            url = urllib.parse.urlsplit(place.postgres)
            return PGVectorStore.from_params(
                host=url.hostname, port=str(url.port), database=url.path[1:], user=url.username, password=url.password, table_name=name, embed_dim=place.dimensions
            )
        if store == "Chroma":
            import chromadb
            from llama_index.vector_stores.chroma import ChromaVectorStore

            client = chromadb.HttpClient("127.0.0.1", place.chroma)
            return ChromaVectorStore(client.get_or_create_collection(name, embedding_function=None, configuration={"hnsw": {"space": "cosine"}}))
        if store == "LanceDB":
            from llama_index.vector_stores.lancedb import LanceDBVectorStore

            return LanceDBVectorStore(uri=str(place.folder / "lance-llama"), table_name=name, mode="create")
        from llama_index.vector_stores.milvus import MilvusVectorStore

        return MilvusVectorStore(
            uri=shared_connection(place.folder / "milvus-llama.db"), collection_name=name, dim=place.dimensions, similarity_metric="COSINE",
            index_config={"index_type": "FLAT"}, use_async_client=False,
        )

    def embedding(gase: Gase | None):
        return IsomerEmbedding(place.encoder, place.client, gase=gase)

    def write(documents: dict[str, str], gase: Gase | None) -> None:
        nodes = [TextNode(id_=key, text=text) for key, text in documents.items()]
        context = StorageContext.from_defaults(vector_store=vector_store())
        VectorStoreIndex(nodes, storage_context=context, embed_model=embedding(gase), insert_batch_size=ROWS)

    def search(gase: Gase | None) -> Search:
        index = VectorStoreIndex.from_vector_store(vector_store(), embed_model=embedding(gase))
        retriever = index.as_retriever(similarity_top_k=K)
        return lambda query: [found.node.node_id for found in retriever.retrieve(query)]

    return Pipeline(write, search)


# Haystack


def haystack(store: str, place: Place, name: str) -> Pipeline:
    from haystack import Document
    from haystack import Pipeline as HaystackPipeline
    from haystack.components.writers import DocumentWriter
    from haystack.document_stores.types import DuplicatePolicy
    from isomer_client.integrations.haystack import IsomerDocumentEmbedder, IsomerTextEmbedder

    from haystack_stores import LanceStore, MilvusStore, OwnRetriever

    def document_store(fresh: bool) -> Any:
        if store == "pgvector":
            from haystack.utils import Secret
            from haystack_integrations.document_stores.pgvector import PgvectorDocumentStore

            return PgvectorDocumentStore(
                connection_string=Secret.from_token(place.postgres), table_name=name, embedding_dimension=place.dimensions,
                vector_function="cosine_similarity", recreate_table=fresh, keyword_index_name=f"{name}_keywords",
            )
        if store == "Chroma":
            from haystack_integrations.document_stores.chroma import ChromaDocumentStore

            return ChromaDocumentStore(name, host="127.0.0.1", port=place.chroma, distance_function="cosine")
        if store == "LanceDB":
            return LanceStore(place.folder / "lance-haystack", name, place.dimensions)
        return MilvusStore(shared_connection(place.folder / "milvus-haystack.db"), name, place.dimensions)

    def retriever(of: Any) -> Any:
        if store == "pgvector":
            from haystack_integrations.components.retrievers.pgvector import PgvectorEmbeddingRetriever

            return PgvectorEmbeddingRetriever(document_store=of, top_k=K)
        if store == "Chroma":
            from haystack_integrations.components.retrievers.chroma import ChromaEmbeddingRetriever

            return ChromaEmbeddingRetriever(of, top_k=K)
        return OwnRetriever(of, K)

    def write(documents: dict[str, str], gase: Gase | None) -> None:
        pipeline = HaystackPipeline()
        pipeline.add_component("embedder", IsomerDocumentEmbedder(place.encoder, place.address, gase=gase))
        pipeline.add_component("writer", DocumentWriter(document_store(True), policy=DuplicatePolicy.OVERWRITE if store == "pgvector" else DuplicatePolicy.NONE))
        pipeline.connect("embedder.documents", "writer.documents")
        for some in parts(documents):
            pipeline.run({"embedder": {"documents": [Document(id=key, content=text) for key, text in some.items()]}})

    def search(gase: Gase | None) -> Search:
        pipeline = HaystackPipeline()
        pipeline.add_component("embedder", IsomerTextEmbedder(place.encoder, place.address, gase=gase))
        pipeline.add_component("retriever", retriever(document_store(False)))
        pipeline.connect("embedder.embedding", "retriever.query_embedding")
        return lambda query: [one.id for one in pipeline.run({"embedder": {"text": query}})["retriever"]["documents"]]

    return Pipeline(write, search)


FRAMEWORKS = {"LangChain": langchain, "LlamaIndex": llama_index, "Haystack": haystack}
STORES = ["pgvector", "Chroma", "LanceDB", "Milvus Lite"]
# Stores that compare with every vector; Chroma searches by HNSW at any size.
EXACT = {"pgvector", "LanceDB", "Milvus Lite"}
