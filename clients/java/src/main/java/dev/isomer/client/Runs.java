package dev.isomer.client;

import dev.isomer.eval.v1.CancelRunRequest;
import dev.isomer.eval.v1.CreateRunRequest;
import dev.isomer.eval.v1.DeleteRunRequest;
import dev.isomer.eval.v1.GetFleetRequest;
import dev.isomer.eval.v1.GetFleetResponse;
import dev.isomer.eval.v1.GetHistoryRequest;
import dev.isomer.eval.v1.GetHistoryResponse;
import dev.isomer.eval.v1.GetReportRequest;
import dev.isomer.eval.v1.GetReportResponse;
import dev.isomer.eval.v1.GetRunRequest;
import dev.isomer.eval.v1.ListRunsRequest;
import dev.isomer.eval.v1.PlanRunRequest;
import dev.isomer.eval.v1.ReportFormat;
import dev.isomer.eval.v1.Run;
import dev.isomer.eval.v1.RunPlan;
import dev.isomer.eval.v1.RunServiceGrpc;
import dev.isomer.eval.v1.RunSpec;
import dev.isomer.eval.v1.SuiteRef;
import dev.isomer.eval.v1.WatchRunRequest;
import dev.isomer.eval.v1.WatchRunResponse;
import io.grpc.Context;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.UUID;
import java.util.function.Consumer;
import java.util.stream.Stream;

/** RunService: robustness checks as long-running work. */
public final class Runs {
  private final Transport transport;

  Runs(Transport transport) {
    this.transport = transport;
  }

  /**
   * Specification of a run: a suite that ships with Isomer, and the encoders. Set the rest on it.
   */
  public static RunSpec.Builder spec(String suite, List<String> encoders) {
    return RunSpec.newBuilder()
        .setSuite(SuiteRef.newBuilder().setBuiltin(suite))
        .addAllEncoderIds(encoders);
  }

  /** The same for the file of a suite, which is sent as its text. */
  public static RunSpec.Builder spec(Path suite, List<String> encoders) {
    try {
      SuiteRef.Builder ref =
          SuiteRef.newBuilder()
              .setToml(Files.readString(suite))
              .setFileName(String.valueOf(suite.getFileName()))
              .setBaseDir(String.valueOf(suite.toAbsolutePath().getParent()));
      return RunSpec.newBuilder().setSuite(ref).addAllEncoderIds(encoders);
    } catch (IOException error) {
      throw IsomerException.invalid(
          "suite", "give a file that is there", "suite cannot be read: " + error.getMessage());
    }
  }

  /** Starts a run. It has a request id of its own: a repeated request makes no second run. */
  public Run create(RunSpec spec) {
    return create(spec, UUID.randomUUID().toString());
  }

  /** Starts a run, or gives the one that was started with that request id. */
  public Run create(RunSpec spec, String requestId) {
    CreateRunRequest request =
        CreateRunRequest.newBuilder().setSpec(spec).setRequestId(requestId).build();
    return transport.call(RunServiceGrpc.getCreateRunMethod(), request).getRun();
  }

  /** Estimates what a run would take, before it costs. */
  public RunPlan plan(RunSpec spec) {
    PlanRunRequest request = PlanRunRequest.newBuilder().setSpec(spec).build();
    return transport.call(RunServiceGrpc.getPlanRunMethod(), request).getPlan();
  }

  /** A run as it is now. */
  public Run get(String id) {
    GetRunRequest request = GetRunRequest.newBuilder().setId(id).build();
    return transport.call(RunServiceGrpc.getGetRunMethod(), request).getRun();
  }

  /** Runs, newest first. */
  public Stream<Run> list() {
    return Pages.of(
        page ->
            transport.call(
                RunServiceGrpc.getListRunsMethod(),
                ListRunsRequest.newBuilder().setPageToken(page).build()),
        answer -> answer.getRunsList(),
        answer -> answer.getNextPageToken());
  }

  /**
   * The run's events after a sequence number (0: from its start), until it ends. A connection that
   * breaks is made again where it stood. Close it to stop watching.
   */
  public CloseableIterator<WatchRunResponse> watch(String id, long after) {
    return new CloseableIterator<WatchRunResponse>() {
      private CloseableIterator<WatchRunResponse> stream;
      private long sequence = after;
      private int attempt;
      private boolean over;

      @Override
      public boolean hasNext() {
        while (!over) {
          try {
            if (stream == null) {
              attempt++;
              stream =
                  transport.stream(
                      RunServiceGrpc.getWatchRunMethod(),
                      WatchRunRequest.newBuilder().setId(id).setAfterSequence(sequence).build());
            }
            over = !stream.hasNext();
            return !over;
          } catch (IsomerException error) {
            close();
            stream = null;
            transport.pause(error, attempt, Context.current().getDeadline());
          }
        }
        return false;
      }

      @Override
      public WatchRunResponse next() {
        if (!hasNext()) {
          throw new NoSuchElementException();
        }
        WatchRunResponse event = stream.next();
        attempt = 0;
        sequence = event.getSequence();
        if (event.hasEnded()) {
          over = true;
          close();
        }
        return event;
      }

      @Override
      public void close() {
        if (stream != null) {
          stream.close();
        }
      }
    };
  }

  /** The run as it ended; {@code progress} gets each event on the way. */
  public Run await(String id, Consumer<WatchRunResponse> progress) {
    try (CloseableIterator<WatchRunResponse> events = watch(id, 0)) {
      while (events.hasNext()) {
        WatchRunResponse event = events.next();
        if (event.hasEnded()) {
          return event.getEnded();
        }
        progress.accept(event);
      }
    }
    return get(id);
  }

  /** Stops a run. Finished work stays stored. */
  public Run cancel(String id, String reason) {
    CancelRunRequest request = CancelRunRequest.newBuilder().setId(id).setReason(reason).build();
    return transport.call(RunServiceGrpc.getCancelRunMethod(), request).getRun();
  }

  /** Forgets a run that has ended, its report included. */
  public void delete(String id) {
    transport.call(
        RunServiceGrpc.getDeleteRunMethod(), DeleteRunRequest.newBuilder().setId(id).build());
  }

  /** The workers that do the work of runs, and what active runs wait for. */
  public GetFleetResponse fleet() {
    return transport.call(
        RunServiceGrpc.getGetFleetMethod(), GetFleetRequest.getDefaultInstance());
  }

  /** The releases of an encoder over the runs that are kept, in each form. */
  public GetHistoryResponse history(GetHistoryRequest request) {
    return transport.call(RunServiceGrpc.getGetHistoryMethod(), request);
  }

  /** The report of a run that succeeded, in one form. */
  public GetReportResponse report(String id, ReportFormat format) {
    GetReportRequest request = GetReportRequest.newBuilder().setId(id).setFormat(format).build();
    return transport.call(RunServiceGrpc.getGetReportMethod(), request);
  }
}
