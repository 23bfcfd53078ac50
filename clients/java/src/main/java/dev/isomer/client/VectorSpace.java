package dev.isomer.client;

import java.util.ArrayList;
import java.util.List;
import java.util.Objects;

/**
 * Properties that vectors must share to be compared. {@link #message()} has its fields; store
 * {@code message().toByteArray()} beside an index.
 */
public final class VectorSpace {
  private final dev.isomer.common.v1.VectorSpace message;

  private VectorSpace(dev.isomer.common.v1.VectorSpace message) {
    this.message = message;
  }

  /** The space of a message of the protos. */
  public static VectorSpace of(dev.isomer.common.v1.VectorSpace message) {
    return new VectorSpace(message);
  }

  /** The message of the protos. */
  public dev.isomer.common.v1.VectorSpace message() {
    return message;
  }

  /** Identifier of the space. */
  public String digest() {
    return message.getDigest();
  }

  /** Names of the fields that differ, the digest last, which follows from the others. */
  public List<String> differing(VectorSpace other) {
    List<String> names = new ArrayList<>();
    dev.isomer.common.v1.VectorSpace.getDescriptor().getFields().stream()
        .filter(field -> !field.getName().equals("digest"))
        .filter(field -> !message.getField(field).equals(other.message.getField(field)))
        .forEach(field -> names.add(field.getName()));
    if (!digest().equals(other.digest())) {
      names.add("digest");
    }
    return names;
  }

  /** Whether vectors may be compared: one space, or two that differ in the prompt alone. */
  public boolean comparesWith(VectorSpace other) {
    return digest().equals(other.digest())
        || List.of("prompt", "digest").containsAll(differing(other));
  }

  static IsomerException mismatch(VectorSpace expected, VectorSpace found, String whose) {
    List<String> told = new ArrayList<>();
    for (String name : expected.differing(found)) {
      if (!name.equals("digest")) {
        Object was = expected.message.getField(dev.isomer.common.v1.VectorSpace.getDescriptor().findFieldByName(name));
        Object is = found.message.getField(dev.isomer.common.v1.VectorSpace.getDescriptor().findFieldByName(name));
        told.add(name + " `" + is + "` in place of `" + was + "`");
      }
    }
    String said = told.isEmpty() ? "digest " + found.digest() : String.join(", ", told);
    IsomerException.Facts facts =
        new IsomerException.Facts(
                io.grpc.Status.Code.FAILED_PRECONDITION,
                "vectors of another space than those of " + whose + ": " + said)
            .reason("SPACE_MISMATCH")
            .field("vector_space")
            .hint(
                "encode everything again into a collection of its own, or ask the encoder that the"
                    + " first vectors came from");
    return new IsomerException.SpaceMismatch(facts, expected, found);
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof VectorSpace && message.equals(((VectorSpace) other).message);
  }

  @Override
  public int hashCode() {
    return Objects.hash(message);
  }

  @Override
  public String toString() {
    return "VectorSpace(" + digest() + ")";
  }
}
