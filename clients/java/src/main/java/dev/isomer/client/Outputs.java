package dev.isomer.client;

import dev.isomer.common.v1.Usage;
import java.util.List;
import java.util.Optional;

/** Results of one pass, each in a vector space of its own; empty where it was not asked for. */
public final class Outputs {
  private final Embeddings textVector;
  private final Sparse sparse;
  private final Tokens tokenVectors;
  private final Usage usage;

  Outputs(Embeddings textVector, Sparse sparse, Tokens tokenVectors, Usage usage) {
    this.textVector = textVector;
    this.sparse = sparse;
    this.tokenVectors = tokenVectors;
    this.usage = usage;
  }

  /** A dense vector for each text. */
  public Optional<Embeddings> textVector() {
    return Optional.ofNullable(textVector);
  }

  /** A sparse vector for each text. */
  public Optional<Sparse> sparse() {
    return Optional.ofNullable(sparse);
  }

  /** A vector for each token of each text. */
  public Optional<Tokens> tokenVectors() {
    return Optional.ofNullable(tokenVectors);
  }

  /** Usage of the call, over all its requests. */
  public Usage usage() {
    return usage;
  }

  /** A sparse vector for each text. */
  public static final class Sparse {
    private final List<SparseVector> texts;
    private final VectorSpace space;

    Sparse(List<SparseVector> texts, VectorSpace space) {
      this.texts = texts;
      this.space = space;
    }

    /** The vectors, in the order of the texts. */
    public List<SparseVector> texts() {
      return texts;
    }

    /** The space that all of them belong to. */
    public VectorSpace space() {
      return space;
    }
  }

  /** A vector for each token of each text. */
  public static final class Tokens {
    private final List<Matrix> texts;
    private final VectorSpace space;

    Tokens(List<Matrix> texts, VectorSpace space) {
      this.texts = texts;
      this.space = space;
    }

    /** The rows of each text, in the order of the texts. */
    public List<Matrix> texts() {
      return texts;
    }

    /** The space that all of them belong to. */
    public VectorSpace space() {
      return space;
    }
  }
}
