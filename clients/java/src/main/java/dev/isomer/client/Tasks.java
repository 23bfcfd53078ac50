package dev.isomer.client;

import dev.isomer.eval.v1.DatasetInfo;
import dev.isomer.eval.v1.DatasetInput;
import dev.isomer.eval.v1.DatasetRef;
import dev.isomer.eval.v1.ListDatasetsRequest;
import dev.isomer.eval.v1.ListTasksRequest;
import dev.isomer.eval.v1.PairVectors;
import dev.isomer.eval.v1.ScoreRequest;
import dev.isomer.eval.v1.ScoreResponse;
import dev.isomer.eval.v1.TaskInfo;
import dev.isomer.eval.v1.TaskServiceGrpc;
import dev.isomer.eval.v1.TaskType;
import java.util.List;
import java.util.stream.Stream;

/** TaskService: vectors, or a data set and an encoder, to scores. */
public final class Tasks {
  private final Transport transport;

  Tasks(Transport transport) {
    this.transport = transport;
  }

  /** The kinds of task, with the fields and the main score of each. */
  public Stream<TaskInfo> list() {
    return Pages.of(
        page ->
            transport.call(
                TaskServiceGrpc.getListTasksMethod(),
                ListTasksRequest.newBuilder().setPageToken(page).build()),
        answer -> answer.getTasksList(),
        answer -> answer.getNextPageToken());
  }

  /** The data sets that can be named: those that the request narrows to. */
  public Stream<DatasetInfo> datasets(ListDatasetsRequest request) {
    return Pages.of(
        page ->
            transport.call(
                TaskServiceGrpc.getListDatasetsMethod(),
                request.toBuilder().setPageToken(page).build()),
        answer -> answer.getDatasetsList(),
        answer -> answer.getNextPageToken());
  }

  /** The scores of any task. {@link Matrix#message} makes its matrices. */
  public ScoreResponse score(ScoreRequest request) {
    return transport.call(TaskServiceGrpc.getScoreMethod(), request);
  }

  /** Scores of pairs of vectors: with labels, or without for bitext. */
  public ScoreResponse scorePairs(
      TaskType task, Matrix first, Matrix second, List<Double> labels) {
    PairVectors pairs =
        PairVectors.newBuilder()
            .setFirst(first.message())
            .setSecond(second.message())
            .addAllLabels(labels)
            .build();
    return score(ScoreRequest.newBuilder().setTaskType(task).setPairs(pairs).build());
  }

  /** A data set, by its name, encoded and scored by the server; a limit of 0 takes all of it. */
  public ScoreResponse scoreDataset(TaskType task, String dataset, String encoder, int limit) {
    DatasetInput.Builder input =
        DatasetInput.newBuilder()
            .setDataset(DatasetRef.newBuilder().setNamed(dataset))
            .setEncoderId(encoder);
    if (limit > 0) {
      input.setLimit(limit);
    }
    return score(ScoreRequest.newBuilder().setTaskType(task).setDataset(input).build());
  }
}
