package dev.isomer.client;

import io.grpc.Status;
import java.util.ArrayList;
import java.util.List;

/** A text of a list that has no vector. */
public final class ItemError {
  private final int index;
  private final Status.Code code;
  private final String message;

  ItemError(int index, Status.Code code, String message) {
    this.index = index;
    this.code = code;
    this.message = message;
  }

  static List<ItemError> of(List<dev.isomer.common.v1.ItemError> errors, int start) {
    List<ItemError> made = new ArrayList<>();
    for (dev.isomer.common.v1.ItemError one : errors) {
      Status.Code code = Status.fromCodeValue(one.getCode()).getCode();
      made.add(new ItemError(one.getIndex() + start, code, one.getMessage()));
    }
    return made;
  }

  /** Throws if there are errors. */
  static void failed(List<ItemError> errors, Embeddings embeddings) {
    if (errors.isEmpty()) {
      return;
    }
    ItemError first = errors.get(0);
    String field = "inputs[" + first.index + "]";
    String more = errors.size() > 1 ? ", and " + (errors.size() - 1) + " more texts" : "";
    IsomerException.Facts facts =
        new IsomerException.Facts(first.code, field + ": " + first.message + more)
            .reason("TEXTS_FAILED")
            .field(field);
    if (embeddings != null) {
      facts.hint("partial() gives the others, and the errors beside them");
    }
    throw new IsomerException.TextsFailed(facts, errors, embeddings);
  }

  /** Its place in the caller's list. */
  public int index() {
    return index;
  }

  /** The gRPC code. */
  public Status.Code code() {
    return code;
  }

  /** Description of the error. */
  public String message() {
    return message;
  }
}
