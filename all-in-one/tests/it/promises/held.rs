//! Promises tested elsewhere: element, sentence, and file and name of each test.

type Held = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

const EMBED: &str = "embed-svc/tests/it/service.rs";
const TOKENS: &str = "embed-svc/tests/it/tokens.rs";
const KINDS: &str = "gateway/adapters/tests/it/served_kinds.rs";
const KEYS: &str = "gateway/access/tests/it/access/keys.rs";
const LEASES: &str = "gateway/registry/tests/it/leases.rs";
const TEI: &str = "gateway/src/dialects/tei/grpc_tests.rs";
const CHANGES: &str = "gateway/registry/tests/it/changes.rs";

pub const ALL: &[Held] = &[
    (
        "StatisticsService",
        "INVALID_ARGUMENT on the field that determines the time of a request, for more than 2147483648 steps, about 20 seconds on one core",
        &[(
            "eval-svc/src/statistics_service/cost.rs",
            "the_largest_request_of_each_rpc_is_within_the_bound_and_one_step_more_is_refused",
        )],
    ),
    (
        "tei.v1",
        "INVALID_ARGUMENT where several could be meant",
        &[(TEI, "an_encoder_that_nobody_named_is_asked_for_by_name")],
    ),
    (
        "tei.EmbedRequest.truncate",
        "Otherwise it is refused: INVALID_ARGUMENT",
        &[(TEI, "texts_become_vectors_one_by_one_and_in_streams")],
    ),
    (
        "isomer.common.v1",
        "A message that cannot be decoded is answered INVALID_ARGUMENT with the reason UNDECODABLE_MESSAGE, a method that is not served \
         UNIMPLEMENTED",
        &[
            (
                "all-in-one/tests/it/promises/every.rs",
                "messages_that_cannot_be_decoded_are_refused_by_every_rpc",
            ),
            (
                "all-in-one/tests/it/promises/every.rs",
                "unknown_methods_and_codings_are_explained",
            ),
        ],
    ),
    (
        "isomer.common.v1",
        "A List rpc answers INVALID_ARGUMENT to a `page_token` that it did not give out",
        &[(
            "all-in-one/tests/it/promises/every.rs",
            "a_page_token_that_was_not_given_out_is_refused_by_every_list",
        )],
    ),
    (
        "EncoderService.Encode",
        "INVALID_ARGUMENT: no inputs",
        &[(EMBED, "bad_requests_are_refused_naming_the_field")],
    ),
    (
        "EncoderService.Encode",
        "INVALID_ARGUMENT: unknown prompt name",
        &[(EMBED, "bad_requests_are_refused_naming_the_field")],
    ),
    (
        "EncoderService.Encode",
        "INVALID_ARGUMENT: dimensions not permitted",
        &[(EMBED, "bad_requests_are_refused_naming_the_field")],
    ),
    (
        "EncoderService.Encode",
        "INVALID_ARGUMENT: a text longer than the model's maximum under TRUNCATION_ERROR",
        &[(EMBED, "too_long_texts_are_cut_at_either_end_or_refused_by_name")],
    ),
    (
        "EncoderService.Encode",
        "RESOURCE_EXHAUSTED with RetryInfo: the queue is full",
        &[(
            "embed-svc/tests/it/engine.rs",
            "a_full_queue_refuses_with_a_retry_hint_and_serves_again_when_it_has_room",
        )],
    ),
    (
        "EncoderService.Encode",
        "FAILED_PRECONDITION: the model's files are unusable",
        &[(
            EMBED,
            "an_unusable_folder_is_a_failed_precondition_and_heals_when_repaired",
        )],
    ),
    (
        "EncoderService.Encode",
        "UNIMPLEMENTED: a dtype or capability this encoder lacks",
        &[(
            "embed-svc/tests/it/delivery.rs",
            "token_vectors_come_with_the_rows_of_each_input_and_in_a_space_of_their_own",
        )],
    ),
    (
        "EncoderService.Tokenize",
        "NOT_FOUND: unknown encoder",
        &[(TOKENS, "bad_requests_for_tokens_name_their_field")],
    ),
    (
        "EncoderService.Tokenize",
        "INVALID_ARGUMENT: more texts than `max_batch_items`",
        &[(TOKENS, "bad_requests_for_tokens_name_their_field")],
    ),
    (
        "EncoderService.Tokenize",
        "INVALID_ARGUMENT: unknown prompt name",
        &[(TOKENS, "bad_requests_for_tokens_name_their_field")],
    ),
    (
        "EncoderService.Tokenize",
        "INVALID_ARGUMENT: an answer of more tokens than a message holds",
        &[(TOKENS, "an_answer_of_too_many_tokens_is_refused")],
    ),
    (
        "EncoderService.Tokenize",
        "INVALID_ARGUMENT: an answer of more than 200000 tokens",
        &[(TOKENS, "an_answer_holds_at_most_200_000_tokens")],
    ),
    (
        "EncoderService.Tokenize",
        "INVALID_ARGUMENT: texts of more than 16 MiB in all",
        &[(TOKENS, "texts_to_tokenise_hold_at_most_16_mib")],
    ),
    (
        "EncoderService.Tokenize",
        "UNIMPLEMENTED: a provider that only encodes",
        &[(KINDS, "tei_is_sent_its_fields_and_tells_its_limits")],
    ),
    (
        "EncoderService.Detokenize",
        "NOT_FOUND: unknown encoder",
        &[(TOKENS, "bad_requests_for_tokens_name_their_field")],
    ),
    (
        "EncoderService.Detokenize",
        "INVALID_ARGUMENT: more lists than `max_batch_items`",
        &[(TOKENS, "bad_requests_for_tokens_name_their_field")],
    ),
    (
        "EncoderService.Detokenize",
        "INVALID_ARGUMENT: an id that the tokenizer does not know",
        &[(TOKENS, "ids_of_tokens_can_be_encoded_counted_and_read_back")],
    ),
    (
        "EncoderService.Detokenize",
        "UNIMPLEMENTED: as Tokenize",
        &[(KINDS, "tei_is_sent_its_fields_and_tells_its_limits")],
    ),
    (
        "EncoderService.Rerank",
        "UNIMPLEMENTED: an encoder without CAPABILITY_RERANK",
        &[(
            "embed-svc/tests/it/rerank.rs",
            "what_cannot_be_ranked_is_refused_by_field",
        )],
    ),
    (
        "RunService",
        "others are NOT_FOUND",
        &[(
            "eval-svc/tests/it/run_owners.rs",
            "a_run_is_its_owners_and_an_administrators",
        )],
    ),
    (
        "RunService.CreateRun",
        "RESOURCE_EXHAUSTED while too many runs wait for a place, in all or of this caller",
        &[("eval-svc/tests/it/run_owners.rs", "runs_wait_in_bounded_numbers")],
    ),
    (
        "RunService.CreateRun",
        "FAILED_PRECONDITION where the plan is above RunSpec.limits",
        &[("eval-svc/tests/it/run_plan.rs", "a_run_above_its_limits_is_not_started")],
    ),
    (
        "DatasetInput.form",
        "INVALID_ARGUMENT for any other form or task, together with ScoreRequest.index, and for `bm25` together with augmentation",
        &[(
            "eval-svc/tests/it/search.rs",
            "a_search_form_for_another_task_or_with_another_search_is_refused",
        )],
    ),
    (
        "RunSpec.forms",
        "INVALID_ARGUMENT for an unknown form, for dimensions that the encoder does not have, for a corpus that is searched in shards, and \
         for a search form beside data sets of other tasks than retrieval",
        &[
            (
                "eval-svc/tests/it/run_variants.rs",
                "forms_that_cannot_be_measured_are_refused_before_anything_is_generated",
            ),
            (
                "eval-svc/tests/it/run_search_forms.rs",
                "searches_that_cannot_be_measured_are_refused_before_anything_is_generated",
            ),
        ],
    ),
    (
        "RunSpec.total_items",
        "INVALID_ARGUMENT for fewer rows than datasets, and beside `limit`",
        &[(
            "eval-svc/tests/it/run_power.rs",
            "impossible_totals_and_probabilities_are_refused_by_name",
        )],
    ),
    (
        "RunSpec.prompt_variants",
        "INVALID_ARGUMENT for an unknown name, and if they change no prompt of any encoder",
        &[(
            "eval-svc/tests/it/run_variants.rs",
            "a_variant_that_changes_no_prompt_costs_nothing_and_a_run_without_any_is_refused",
        )],
    ),
    (
        "RunLimits",
        "a run that cannot continue within it fails (RESOURCE_EXHAUSTED), and finished work is kept",
        &[(
            "eval-svc/tests/it/run_plan.rs",
            "a_run_that_takes_more_than_was_planned_is_stopped_and_keeps_what_was_made",
        )],
    ),
    (
        "RunService.GetFleet",
        "UNAVAILABLE while its queue cannot be reached",
        &[(
            "tests/tests/it/fleet_view.rs",
            "a_server_its_page_and_the_command_line_show_what_a_run_waits_for_and_who_does_it",
        )],
    ),
    (
        "RunService.GetHistory",
        "NOT_FOUND where no kept run has the encoder, or none has the suite",
        &[(
            "eval-svc/tests/it/run_history.rs",
            "what_a_history_cannot_answer_is_refused_by_the_name_of_its_field",
        )],
    ),
    (
        "RunService.GetHistory",
        "INVALID_ARGUMENT names an option that is out of range",
        &[(
            "eval-svc/tests/it/run_history.rs",
            "what_a_history_cannot_answer_is_refused_by_the_name_of_its_field",
        )],
    ),
    (
        "RunService.GetHistory",
        "RESOURCE_EXHAUSTED where more than 500 runs may have the encoder",
        &[(
            "eval-svc/tests/it/run_history.rs",
            "a_history_of_too_many_runs_is_refused_and_of_as_many_as_allowed_is_told",
        )],
    ),
    (
        "RunService.DeleteRun",
        "FAILED_PRECONDITION while it is active",
        &[(
            "all-in-one/tests/it/promises/every.rs",
            "a_run_that_is_under_way_has_no_report_and_is_not_deleted",
        )],
    ),
    (
        "RunService.GetReport",
        "FAILED_PRECONDITION before that",
        &[(
            "all-in-one/tests/it/promises/every.rs",
            "a_run_that_is_under_way_has_no_report_and_is_not_deleted",
        )],
    ),
    (
        "CancelRunRequest.reason",
        "INVALID_ARGUMENT otherwise",
        &[(
            "all-in-one/tests/it/promises/every.rs",
            "a_run_that_is_under_way_has_no_report_and_is_not_deleted",
        )],
    ),
    (
        "TaskService.Score",
        "INVALID_ARGUMENT: shapes that disagree",
        &[(
            "eval-svc/tests/it/services.rs",
            "bad_score_requests_name_the_field_and_the_hint",
        )],
    ),
    (
        "TaskService.Score",
        "INVALID_ARGUMENT: labels that are not numbers",
        &[(
            "eval-svc/tests/it/services.rs",
            "bad_score_requests_name_the_field_and_the_hint",
        )],
    ),
    (
        "TaskService.Score",
        "UNIMPLEMENTED: a task type or profile that is not served yet",
        &[(
            "eval-svc/tests/it/services.rs",
            "what_is_not_there_or_not_served_is_said_with_the_right_code",
        )],
    ),
    (
        "TaskService.Score",
        "UNAVAILABLE: a data set that is neither on the server nor available from the hub",
        &[(
            "eval-svc/tests/it/hub.rs",
            "a_name_that_cannot_be_reached_says_where_it_was_looked_for_and_how_to_get_it",
        )],
    ),
    (
        "TaskOptions.tag_parts_of_speech",
        "INVALID_ARGUMENT where the targets are in another language, or the data does not say in which",
        &[(
            "eval-svc/tests/it/clsd.rs",
            "what_cannot_be_tagged_or_translated_is_refused",
        )],
    ),
    (
        "DatasetAugmentation.queries_only",
        "INVALID_ARGUMENT for a task without documents",
        &[(
            "eval-svc/tests/it/augmented.rs",
            "only_queries_are_augmented_where_that_is_asked_and_possible",
        )],
    ),
    (
        "DatasetAugmentation.plain",
        "INVALID_ARGUMENT where it is not of this data set and metric",
        &[(
            "eval-svc/tests/it/augmented.rs",
            "the_difference_to_the_plain_score_has_an_interval_over_its_items",
        )],
    ),
    (
        "TransformService.Transform",
        "UNAVAILABLE: the generator cannot be reached",
        &[(
            "transform-svc/tests/it/service/faults.rs",
            "an_unreachable_generator_is_said_to_be_so_soon",
        )],
    ),
    (
        "AugmentationService.Augment",
        "ABORTED: a variant is missing under PARTIAL_FAILURE_POLICY_FAIL",
        &[(
            "transform-svc/tests/it/service/augmentation/arrival.rs",
            "a_variant_that_fails_its_checks_is_left_out_or_fails_the_request",
        )],
    ),
    (
        "AugmentationService.EncodeAugmented",
        "FAILED_PRECONDITION: this server knows no encoder service",
        &[(
            "transform-svc/tests/it/service/augmentation/refusals.rs",
            "bad_requests_are_refused_with_their_field",
        )],
    ),
    (
        "Continuation",
        "a server is asked at /completions, and one without it ends the request with FAILED_PRECONDITION",
        &[(
            "transform-svc/tests/it/service/adversarial.rs",
            "a_server_without_completions_ends_the_request_and_is_told_apart_from_one_without_the_model",
        )],
    ),
    (
        "OnFailure.ON_FAILURE_FAIL",
        "ABORTED",
        &[(
            "transform-svc/tests/it/service/checks.rs",
            "a_request_that_should_fail_names_the_text",
        )],
    ),
    (
        "PartialFailurePolicy.PARTIAL_FAILURE_POLICY_FAIL",
        "ABORTED",
        &[(
            "transform-svc/tests/it/service/augmentation/arrival.rs",
            "a_variant_that_fails_its_checks_is_left_out_or_fails_the_request",
        )],
    ),
    (
        "AccessService",
        "UNAUTHENTICATED: `NO_KEY`",
        &[(KEYS, "without_a_key_only_the_probes_answer")],
    ),
    (
        "AccessService",
        "UNAUTHENTICATED: `SEVERAL_CREDENTIALS`",
        &[(
            "gateway/access/tests/it/access/modes.rs",
            "where_anyone_may_come_other_services_keys_are_passed_over_and_ours_are_checked",
        )],
    ),
    (
        "AccessService",
        "UNAUTHENTICATED: `BAD_HEADER`",
        &[(
            "gateway/access/tests/it/access/modes.rs",
            "a_browser_may_show_a_page_with_the_key_as_its_password",
        )],
    ),
    (
        "AccessService",
        "UNAUTHENTICATED: `MISTYPED_KEY` (its checksum is wrong)",
        &[(KEYS, "mistyped_unknown_and_foreign_keys_are_told_apart")],
    ),
    (
        "AccessService",
        "UNAUTHENTICATED: `UNKNOWN_KEY`",
        &[(KEYS, "mistyped_unknown_and_foreign_keys_are_told_apart")],
    ),
    (
        "AccessService",
        "UNAUTHENTICATED: `REVOKED_KEY`",
        &[(KEYS, "a_revoked_key_is_refused_at_once_and_for_good")],
    ),
    (
        "AccessService",
        "UNAUTHENTICATED: `EXPIRED_KEY`",
        &[(KEYS, "an_expired_key_is_refused_with_its_date")],
    ),
    (
        "AccessService",
        "UNAUTHENTICATED for tokens of an identity provider: `BAD_TOKEN`",
        &[(
            "gateway/access/tests/it/attacks/tokens.rs",
            "claims_that_do_not_hold_are_refused",
        )],
    ),
    (
        "AccessService",
        "UNAUTHENTICATED for tokens of an identity provider: `EXPIRED_TOKEN`",
        &[(
            "gateway/access/tests/it/attacks/tokens.rs",
            "claims_that_do_not_hold_are_refused",
        )],
    ),
    (
        "AccessService",
        "PERMISSION_DENIED: `WRONG_SCOPE` (metadata `scope` names the one that is missing)",
        &[(KEYS, "a_key_opens_what_its_scopes_say_and_nothing_else")],
    ),
    (
        "AccessService",
        "PERMISSION_DENIED at a gateway that is open to its own machine: `FOREIGN_HOST`",
        &[(
            "gateway/access/tests/it/access/audit.rs",
            "a_loopback_address_is_closed_to_foreign_pages_whatever_the_mode",
        )],
    ),
    (
        "AccessService",
        "PERMISSION_DENIED at a gateway that is open to its own machine: `FOREIGN_ORIGIN`",
        &[(
            "gateway/access/tests/it/access/audit.rs",
            "a_loopback_address_is_closed_to_foreign_pages_whatever_the_mode",
        )],
    ),
    (
        "AccessService",
        "RESOURCE_EXHAUSTED: `RATE_LIMITED`",
        &[(
            "gateway/access/tests/it/access/budgets.rs",
            "rates_and_places_are_limited_and_refusals_say_when_to_come_back",
        )],
    ),
    (
        "AccessService",
        "RESOURCE_EXHAUSTED: `TOO_MANY_AT_ONCE`",
        &[(
            "gateway/access/tests/it/access/budgets.rs",
            "rates_and_places_are_limited_and_refusals_say_when_to_come_back",
        )],
    ),
    (
        "AccessService",
        "RESOURCE_EXHAUSTED: `BUDGET_EXCEEDED` (metadata `per`)",
        &[(
            "gateway/access/tests/it/access/budgets.rs",
            "a_budget_of_tokens_ends_and_says_when_it_begins_again",
        )],
    ),
    (
        "AccessService",
        "RESOURCE_EXHAUSTED: with RetryInfo where waiting helps",
        &[(
            "gateway/access/tests/it/access/budgets.rs",
            "a_budget_of_tokens_ends_and_says_when_it_begins_again",
        )],
    ),
    (
        "AccessService.GetKey",
        "NOT_FOUND (`UNKNOWN_KEY`)",
        &[(
            "gateway/access/tests/it/access/audit.rs",
            "requests_that_cannot_be_meant_name_their_field",
        )],
    ),
    (
        "AccessService.UpdateKey",
        "FAILED_PRECONDITION (`REVOKED_KEY`) for a key that was revoked",
        &[(
            "gateway/access/tests/it/access/audit.rs",
            "keys_are_managed_over_grpc_and_every_act_is_written_down_without_secrets",
        )],
    ),
    (
        "ProviderService",
        "NOT_FOUND says that the lease ran out (or the gateway lost it): register again",
        &[(
            LEASES,
            "a_lease_that_is_not_renewed_ends_at_its_time_and_the_id_is_free_again",
        )],
    ),
    (
        "ProviderService",
        "Every method may answer UNAVAILABLE with the reason DATABASE when the gateway's records cannot be read or written",
        &[(
            "gateway/registry/tests/it/records.rs",
            "while_the_database_is_away_those_known_stay_and_leases_end",
        )],
    ),
    (
        "ProviderService.CreateProvider",
        "FAILED_PRECONDITION when it offers an encoder that another provider offers with different weights",
        &[(CHANGES, "whom_the_gateway_does_not_admit_is_not_stored")],
    ),
    (
        "ProviderService.CreateProvider",
        "FAILED_PRECONDITION with the reason NO_DATABASE when it has no lease and the gateway no database",
        &[(LEASES, "without_a_database_only_leases_are_taken")],
    ),
    (
        "ProviderService.CreateProvider",
        "RESOURCE_EXHAUSTED when there are `providers.max_providers` already",
        &[("gateway/registry/tests/it/pages.rs", "there_are_only_so_many_providers")],
    ),
    (
        "ProviderService.GetProvider",
        "NOT_FOUND when there is none, or its lease ran out",
        &[
            (CHANGES, "a_provider_is_created_read_changed_and_deleted"),
            (
                LEASES,
                "a_lease_that_is_not_renewed_ends_at_its_time_and_the_id_is_free_again",
            ),
        ],
    ),
    (
        "ProviderService.UpdateProvider",
        "ABORTED when `provider.etag` is given and is not the current one, or when somebody else changed the provider at the same \
         moment: read it and try again",
        &[
            (CHANGES, "an_etag_that_is_not_the_current_one_aborts"),
            (CHANGES, "of_many_updates_with_one_etag_one_wins"),
        ],
    ),
    (
        "ProviderService.RenewLease",
        "FAILED_PRECONDITION with the reason NO_LEASE when it has none",
        &[(
            LEASES,
            "a_lease_begins_anew_with_an_update_that_has_it_and_runs_on_with_others",
        )],
    ),
    (
        "ProviderService.DeleteProvider",
        "ABORTED when `etag` is given and is not the current one",
        &[(CHANGES, "an_etag_that_is_not_the_current_one_aborts")],
    ),
];
