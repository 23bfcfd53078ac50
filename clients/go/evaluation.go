package isomer

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"

	evalv1 "isomer.dev/go/eval/v1"
)

// Series is the scores of one system, for StatisticsService.
func Series(name string, values ...float64) *evalv1.ScoreSeries {
	return &evalv1.ScoreSeries{Name: name, Values: values}
}

// Tasks is TaskService: vectors, or a data set and an encoder, to scores.
type Tasks struct{ stub evalv1.TaskServiceClient }

// List has the kinds of task, with the fields and the main score of each.
func (t *Tasks) List(ctx context.Context) iter.Seq2[*evalv1.TaskInfo, error] {
	return pages(func(token string) ([]*evalv1.TaskInfo, string, error) {
		answer, err := t.stub.ListTasks(ctx, &evalv1.ListTasksRequest{PageToken: token})
		return answer.GetTasks(), answer.GetNextPageToken(), err
	})
}

// Datasets has the data sets that can be named, of all papers or of one, of all tasks or of one.
func (t *Tasks) Datasets(ctx context.Context, family string, task evalv1.TaskType) iter.Seq2[*evalv1.DatasetInfo, error] {
	return pages(func(token string) ([]*evalv1.DatasetInfo, string, error) {
		answer, err := t.stub.ListDatasets(ctx, &evalv1.ListDatasetsRequest{Family: family, TaskType: task, PageToken: token})
		return answer.GetDatasets(), answer.GetNextPageToken(), err
	})
}

// Score has the scores of any task: the request as the protos have it. Matrix.Message and NewMatrix
// make its matrices.
func (t *Tasks) Score(ctx context.Context, request *evalv1.ScoreRequest) (*evalv1.ScoreResponse, error) {
	return t.stub.Score(ctx, request)
}

// ScorePairs scores pairs of vectors: TASK_TYPE_STS and TASK_TYPE_PAIR_CLASSIFICATION with labels,
// TASK_TYPE_BITEXT without.
func (t *Tasks) ScorePairs(ctx context.Context, task evalv1.TaskType, first, second Matrix, labels []float64) (*evalv1.ScoreResponse, error) {
	pairs := &evalv1.PairVectors{First: first.Message(), Second: second.Message(), Labels: labels}
	return t.stub.Score(ctx, &evalv1.ScoreRequest{TaskType: task, Input: &evalv1.ScoreRequest_Pairs{Pairs: pairs}})
}

// ScoreDataset scores a data set, by its name, encoded and scored by the server. A limit of 0 takes
// all of it.
func (t *Tasks) ScoreDataset(ctx context.Context, task evalv1.TaskType, dataset, encoder string, limit int) (*evalv1.ScoreResponse, error) {
	input := &evalv1.DatasetInput{Dataset: &evalv1.DatasetRef{Source: &evalv1.DatasetRef_Named{Named: dataset}}, EncoderId: encoder}
	if limit > 0 {
		input.Limit = Ptr(uint32(limit))
	}
	return t.stub.Score(ctx, &evalv1.ScoreRequest{TaskType: task, Input: &evalv1.ScoreRequest_Dataset{Dataset: input}})
}

// Runs is RunService: robustness checks as long-running work.
type Runs struct {
	stub      evalv1.RunServiceClient
	transport *transport
}

// RunSpec says what to run: a suite that ships with Isomer by its name, or the file of one, which
// is sent as its text; and the encoders. Set gate, judge and so on in what it returns.
func RunSpec(suite string, encoders ...string) (*evalv1.RunSpec, error) {
	if !strings.HasSuffix(suite, ".toml") {
		return &evalv1.RunSpec{Suite: &evalv1.SuiteRef{Source: &evalv1.SuiteRef_Builtin{Builtin: suite}}, EncoderIds: encoders}, nil
	}
	text, err := os.ReadFile(suite)
	if err != nil {
		return nil, invalid("suite", "give a suite's name, or a file that is there", "suite cannot be read: %v", err)
	}
	whole, err := filepath.Abs(suite)
	if err != nil {
		return nil, invalid("suite", "give the file's whole path", "suite cannot be found: %v", err)
	}
	ref := &evalv1.SuiteRef{Source: &evalv1.SuiteRef_Toml{Toml: string(text)}, FileName: filepath.Base(whole), BaseDir: filepath.Dir(whole)}
	return &evalv1.RunSpec{Suite: ref, EncoderIds: encoders}, nil
}

// Create starts a run. It has a request id of its own, so that a repeated request makes no second run.
func (r *Runs) Create(ctx context.Context, spec *evalv1.RunSpec) (*evalv1.Run, error) {
	return r.CreateWithID(ctx, spec, requestID())
}

// CreateWithID starts a run, or gives the one that was started with that request id.
func (r *Runs) CreateWithID(ctx context.Context, spec *evalv1.RunSpec, requestID string) (*evalv1.Run, error) {
	answer, err := r.stub.CreateRun(ctx, &evalv1.CreateRunRequest{Spec: spec, RequestId: requestID})
	return answer.GetRun(), err
}

// requestID is a random UUID (RFC 9562, version 4).
func requestID() string {
	var bytes [16]byte
	// It never fails: the program ends where there is no randomness.
	_, _ = rand.Read(bytes[:])
	bytes[6], bytes[8] = bytes[6]&0x0f|0x40, bytes[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", bytes[:4], bytes[4:6], bytes[6:8], bytes[8:10], bytes[10:])
}

// Plan says what a run would take, before it costs.
func (r *Runs) Plan(ctx context.Context, spec *evalv1.RunSpec) (*evalv1.RunPlan, error) {
	answer, err := r.stub.PlanRun(ctx, &evalv1.PlanRunRequest{Spec: spec})
	return answer.GetPlan(), err
}

// Get has a run as it is now.
func (r *Runs) Get(ctx context.Context, id string) (*evalv1.Run, error) {
	answer, err := r.stub.GetRun(ctx, &evalv1.GetRunRequest{Id: id})
	return answer.GetRun(), err
}

// List has runs, newest first.
func (r *Runs) List(ctx context.Context) iter.Seq2[*evalv1.Run, error] {
	return pages(func(token string) ([]*evalv1.Run, string, error) {
		answer, err := r.stub.ListRuns(ctx, &evalv1.ListRunsRequest{PageToken: token})
		return answer.GetRuns(), answer.GetNextPageToken(), err
	})
}

// Watch has the run's events after a sequence number (0: from its start), until it ends. A connection
// that breaks is made again where it stood.
func (r *Runs) Watch(ctx context.Context, id string, after uint64) iter.Seq2[*evalv1.WatchRunResponse, error] {
	return func(yield func(*evalv1.WatchRunResponse, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		for attempt := 1; ; attempt++ {
			stream, err := r.stub.WatchRun(ctx, &evalv1.WatchRunRequest{Id: id, AfterSequence: after})
			for err == nil {
				var event *evalv1.WatchRunResponse
				if event, err = stream.Recv(); err != nil {
					break
				}
				attempt, after = 1, event.GetSequence()
				if !yield(event, nil) || event.GetEnded() != nil {
					return
				}
			}
			if errors.Is(err, io.EOF) {
				return
			}
			failed := fromRPC(err, evalv1.RunService_WatchRun_FullMethodName, attempt)
			if err := r.transport.pause(ctx, failed, attempt, ""); err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// Wait has the run as it ended. Progress, unless it is nil, is called with each event on the way.
func (r *Runs) Wait(ctx context.Context, id string, progress func(*evalv1.WatchRunResponse)) (*evalv1.Run, error) {
	for event, err := range r.Watch(ctx, id, 0) {
		switch {
		case err != nil:
			return nil, err
		case event.GetEnded() != nil:
			return event.GetEnded(), nil
		case progress != nil:
			progress(event)
		}
	}
	return r.Get(ctx, id)
}

// Cancel stops a run. Finished work stays stored.
func (r *Runs) Cancel(ctx context.Context, id, reason string) (*evalv1.Run, error) {
	answer, err := r.stub.CancelRun(ctx, &evalv1.CancelRunRequest{Id: id, Reason: reason})
	return answer.GetRun(), err
}

// Delete forgets a run that has ended, its report included.
func (r *Runs) Delete(ctx context.Context, id string) error {
	_, err := r.stub.DeleteRun(ctx, &evalv1.DeleteRunRequest{Id: id})
	return err
}

// Fleet has the workers that do the work of runs, and what active runs wait for.
func (r *Runs) Fleet(ctx context.Context) (*evalv1.GetFleetResponse, error) {
	return r.stub.GetFleet(ctx, &evalv1.GetFleetRequest{})
}

// History has the releases of an encoder over the runs that are kept, in each form.
func (r *Runs) History(ctx context.Context, request *evalv1.GetHistoryRequest) (*evalv1.GetHistoryResponse, error) {
	return r.stub.GetHistory(ctx, request)
}

// Report of a run that succeeded, in one form.
func (r *Runs) Report(ctx context.Context, id string, format evalv1.ReportFormat) (*Report, error) {
	answer, err := r.stub.GetReport(ctx, &evalv1.GetReportRequest{Id: id, Format: format})
	if err != nil {
		return nil, err
	}
	return &Report{answer.GetContent(), answer.GetMediaType(), answer.GetFileName()}, nil
}
