//! Promises that name no code: the words of the comment, and the test for them. A row fails if
//! the comment lacks its words.

pub struct Stated {
    pub element: &'static str,
    pub quote: &'static str,
    pub test: (&'static str, &'static str),
}

const fn stated(element: &'static str, quote: &'static str, file: &'static str, test: &'static str) -> Stated {
    Stated {
        element,
        quote,
        test: (file, test),
    }
}

const EMBED: &str = "embed-svc/tests/it/service.rs";
const RUNS: &str = "eval-svc/tests/it/run_pipeline.rs";
const KEYS: &str = "gateway/access/tests/it/access/keys.rs";
const EVERY: &str = "all-in-one/tests/it/promises/every.rs";

pub const ALL: &[Stated] = &[
    stated(
        "isomer.common.v1",
        "Each failed rpc carries `google.rpc.ErrorInfo`",
        EVERY,
        "messages_that_cannot_be_decoded_are_refused_by_every_rpc",
    ),
    stated(
        "RunCounters",
        "Once the run has succeeded, texts_planned = texts_generated + texts_by_rule + texts_cached",
        "all-in-one/tests/it/promises/counters.rs",
        "texts_planned_are_those_generated_made_by_rule_and_cached",
    ),
    stated(
        "EncoderService.Encode",
        "The result depends on the text alone",
        EMBED,
        "batched_embedding_equals_single",
    ),
    stated(
        "EncoderService.EncodeStream",
        "in the order sent",
        EMBED,
        "a_stream_is_answered_in_order_and_ends_at_the_first_error",
    ),
    stated(
        "EncoderService.EncodeStream",
        "A batch that is refused ends the stream with its status",
        EMBED,
        "a_stream_is_answered_in_order_and_ends_at_the_first_error",
    ),
    stated(
        "EncoderService.CountTokens",
        "special tokens and prompt included, before truncation",
        EMBED,
        "tokens_are_counted_as_encode_sees_them_before_truncation",
    ),
    stated(
        "RerankResponse.results",
        "Best first",
        "embed-svc/tests/it/rerank.rs",
        "documents_come_best_first_with_their_places_and_the_best_only_where_asked",
    ),
    stated(
        "CreateRunRequest.request_id",
        "a repeated id returns the run that exists",
        RUNS,
        "a_request_id_makes_one_run_however_often_it_is_sent",
    ),
    stated(
        "ListRunsResponse.runs",
        "Newest first",
        RUNS,
        "pages_of_runs_go_from_new_to_old",
    ),
    stated(
        "WatchRunResponse.ended",
        "last event",
        RUNS,
        "progress_is_streamed_replayed_and_ends_with_the_run",
    ),
    stated(
        "RunService.CancelRun",
        "finished units stay stored",
        RUNS,
        "a_cancelled_run_stops_at_once_and_keeps_what_is_finished",
    ),
    stated(
        "RunService.CreateRun",
        "All of a run's inputs are checked before anything is generated",
        RUNS,
        "everything_is_checked_before_anything_is_generated",
    ),
    stated(
        "AccessService.CreateKey",
        "Its text is in this answer and nowhere else",
        "gateway/access/tests/it/access/audit.rs",
        "keys_never_get_into_the_log_even_when_handed_to_it",
    ),
    stated(
        "AccessService.ListKeys",
        "oldest first",
        KEYS,
        "keys_are_listed_page_by_page",
    ),
    stated(
        "KeyBudget",
        "requests that come at once overdraw a budget by at most one of them",
        "gateway/access/tests/it/access/reservations.rs",
        "requests_at_once_overdraw_a_budget_by_at_most_one_of_them",
    ),
    stated(
        "KeyLimits.requests_per_second",
        "Each message of EncodeStream counts as a request",
        "gateway/access/tests/it/access/reservations.rs",
        "messages_of_a_stream_wait_for_the_rate_of_requests_and_count_as_requests",
    ),
    stated(
        "AuditEvent.hash",
        "SHA-256 in hexadecimal",
        "gateway/access/tests/it/access/audit.rs",
        "every_way_of_tampering_with_the_log_shows",
    ),
    stated(
        "ProviderService.ListProviders",
        "All providers in order of id, a page at a time",
        "gateway/registry/tests/it/pages.rs",
        "pages_hold_every_provider_once_in_order_though_the_list_changes_between_them",
    ),
    stated(
        "ListProvidersRequest.page_size",
        "A page of more than 3 MiB ends earlier",
        "gateway/registry/src/page.rs",
        "a_page_ends_before_it_grows_too_large_and_always_goes_on",
    ),
    stated(
        "TransformService.Judge",
        "A pair without a readable rating is counted, never guessed",
        "transform-svc/tests/it/service/judge.rs",
        "ratings_come_in_order_and_what_is_no_rating_is_retried_and_then_counted",
    ),
    stated(
        "AugmentationService.EncodeAugmented",
        "The originals are encoded while variants are generated",
        "transform-svc/tests/it/service/augmentation/arrival.rs",
        "originals_are_encoded_while_variants_are_made_and_each_variant_as_it_comes",
    ),
];
