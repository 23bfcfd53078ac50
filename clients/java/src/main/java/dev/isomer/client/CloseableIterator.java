package dev.isomer.client;

import java.util.Iterator;
import java.util.Spliterator;
import java.util.Spliterators;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;

/**
 * Answers as they come. Closing it cancels what is in flight; one that was read to its end or that
 * threw is closed already.
 */
public interface CloseableIterator<T> extends Iterator<T>, AutoCloseable {
  @Override
  void close();

  /** The items as a stream, which must be closed too. */
  default Stream<T> stream() {
    Spliterator<T> parts = Spliterators.spliteratorUnknownSize(this, Spliterator.ORDERED);
    return StreamSupport.stream(parts, false).onClose(this::close);
  }
}
