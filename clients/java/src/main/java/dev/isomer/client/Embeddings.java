package dev.isomer.client;

import dev.isomer.common.v1.Usage;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/** Vectors of texts, in the order of the texts: one row per text. */
public final class Embeddings {
  private final Matrix vectors;
  private final VectorSpace space;
  private final List<Integer> tokenCounts;
  private final List<Boolean> truncated;
  private final Usage usage;
  private final List<ItemError> errors;

  Embeddings(
      Matrix vectors,
      VectorSpace space,
      List<Integer> tokenCounts,
      List<Boolean> truncated,
      Usage usage,
      List<ItemError> errors) {
    this.vectors = vectors;
    this.space = space;
    this.tokenCounts = tokenCounts;
    this.truncated = truncated;
    this.usage = usage;
    this.errors = errors;
  }

  /** The vectors: a view of one answer, or the rows of several in one buffer. */
  public Matrix vectors() {
    return vectors;
  }

  /** The space that all of them belong to. */
  public VectorSpace space() {
    return space;
  }

  /** Tokens of each text. */
  public List<Integer> tokenCounts() {
    return tokenCounts;
  }

  /** Whether each text was cut; empty where the encoder does not say. */
  public Optional<List<Boolean>> truncated() {
    return Optional.ofNullable(truncated);
  }

  /** Usage of the call, over all its requests. */
  public Usage usage() {
    return usage;
  }

  /** Texts without a vector. */
  public List<ItemError> errors() {
    return errors;
  }

  static Usage sum(Usage one, Usage other) {
    return Usage.newBuilder()
        .setTexts(one.getTexts() + other.getTexts())
        .setTokens(one.getTokens() + other.getTokens())
        .setCachedTexts(one.getCachedTexts() + other.getCachedTexts())
        .setGeneratedTokens(one.getGeneratedTokens() + other.getGeneratedTokens())
        .setGeneratorCalls(one.getGeneratorCalls() + other.getGeneratorCalls())
        .setTokensEstimated(one.getTokensEstimated() || other.getTokensEstimated())
        .setCostNanoUsd(one.getCostNanoUsd() + other.getCostNanoUsd())
        .build();
  }

  /** Puts the answers of several requests together, in order: one buffer, filled as they come. */
  static final class Joiner {
    private final int count;
    private Embeddings only;
    private ByteBuffer rows;
    private Matrix first;
    private VectorSpace space;
    private Usage usage = Usage.getDefaultInstance();
    private final List<Integer> tokenCounts = new ArrayList<>();
    private List<Boolean> truncated = new ArrayList<>();
    private final List<ItemError> errors = new ArrayList<>();

    Joiner(int count) {
      this.count = count;
    }

    void add(Embeddings part) {
      if (part.vectors.rows() == count) {
        only = part;
        return;
      }
      if (rows == null) {
        first = part.vectors;
        space = part.space;
        space = part.space;
        long width = Matrix.rowBytes(first.cols(), first.dtype());
        if (width * count > Integer.MAX_VALUE) {
          throw IsomerException.invalid(
              "texts", "use encodeStream", "the vectors do not fit one buffer of 2 GiB");
        }
        rows = ByteBuffer.allocate((int) width * count);
      }
      if (part.vectors.cols() != first.cols()) {
        throw IsomerException.badAnswer(
            "ask again", "two answers of one call have vectors of different widths");
      }
      rows.put(part.vectors.bytes());
      tokenCounts.addAll(part.tokenCounts);
      if (part.truncated == null) {
        truncated = null;
      } else if (truncated != null) {
        truncated.addAll(part.truncated);
      }
      usage = sum(usage, part.usage);
      errors.addAll(part.errors);
    }

    Embeddings whole() {
      if (only != null) {
        return only;
      }
      rows.flip();
      Matrix vectors = new Matrix(count, first.cols(), first.dtype(), rows, false);
      return new Embeddings(vectors, space, tokenCounts, truncated, usage, errors);
    }
  }
}
