package dev.isomer.client;

import java.util.Optional;

/**
 * The space of vectors that are kept together, e.g. in one index. The first vectors decide which
 * one it is, or the space that it is made with. Vectors that cannot be compared with it throw
 * {@link IsomerException.SpaceMismatch}. Queries and documents may have prompts of their own.
 * Threads and clients may share one.
 */
public final class VectorCollection {
  private final String name;
  private VectorSpace space;

  /** A collection whose space the first vectors decide. */
  public VectorCollection(String name) {
    this(name, null);
  }

  /** A collection whose space is known. */
  public VectorCollection(String name, VectorSpace space) {
    this.name = name;
    this.space = space;
  }

  /** The space of the first vectors. */
  public synchronized Optional<VectorSpace> space() {
    return Optional.ofNullable(space);
  }

  /** Throws unless vectors of that space belong here. */
  public synchronized void check(VectorSpace found) {
    if (space == null) {
      space = found;
    }
    if (!space.comparesWith(found)) {
      throw VectorSpace.mismatch(space, found, "the collection `" + name + "`");
    }
  }
}
