"""Client of Isomer: texts to vectors, transformations, scores and robustness checks, over gRPC.

`Client` blocks, `AsyncClient` is for asyncio; their methods are the same.
"""

from ._aio.client import AsyncClient
from ._sync.client import Client
from ._sync_transport import Cancel
from ._version import VERSION as __version__
from .credentials import AsyncTokenSource, OidcClientCredentials, Token, TokenSource
from .errors import (
    Aborted,
    AlreadyExists,
    BadAnswer,
    Cancelled,
    ClientTooOld,
    DeadlineExceeded,
    FailedPrecondition,
    InvalidArgument,
    IsomerError,
    NotFound,
    PermissionDenied,
    ResourceExhausted,
    ServerFault,
    SpaceMismatch,
    TextsFailed,
    Unauthenticated,
    Unavailable,
    Unimplemented,
)
from .results import (
    AugmentedEmbeddings,
    Embeddings,
    ItemError,
    NewKey,
    Outputs,
    Ranked,
    Ranking,
    Report,
    SparseEmbeddings,
    SparseVector,
    TokenEmbeddings,
    Transformed,
    Usage,
)
from .retry import NO_RETRIES, RetryPolicy
from .settings import Tls
from .spaces import Collection, VectorSpace
from .transforming import Cascade, Sampling, Source

__all__ = [
    "Aborted",
    "AlreadyExists",
    "AsyncClient",
    "AsyncTokenSource",
    "AugmentedEmbeddings",
    "BadAnswer",
    "Cancel",
    "Cancelled",
    "Cascade",
    "Client",
    "ClientTooOld",
    "Collection",
    "DeadlineExceeded",
    "Embeddings",
    "FailedPrecondition",
    "InvalidArgument",
    "IsomerError",
    "ItemError",
    "NO_RETRIES",
    "NewKey",
    "NotFound",
    "Outputs",
    "OidcClientCredentials",
    "PermissionDenied",
    "Ranked",
    "Ranking",
    "Report",
    "ResourceExhausted",
    "RetryPolicy",
    "Sampling",
    "ServerFault",
    "Source",
    "SpaceMismatch",
    "SparseEmbeddings",
    "SparseVector",
    "TextsFailed",
    "Tls",
    "Token",
    "TokenEmbeddings",
    "TokenSource",
    "Transformed",
    "Unauthenticated",
    "Unavailable",
    "Unimplemented",
    "Usage",
    "VectorSpace",
    "__version__",
]
