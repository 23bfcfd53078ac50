//! The rows. `tests/fixtures/keys/make.py` lists the keys that must have one.

use super::{
    FolderFile::{self, *},
    KeyGroup,
    KeyRule::{self, Arguments as OfTransformers, Compared, NoEffect, Obeyed, Only, Refused},
};

const fn group(file: FolderFile, rule: KeyRule, keys: &'static str) -> KeyGroup {
    KeyGroup { file, rule, keys }
}

const TRAINING: KeyRule = NoEffect("training only");
const ORIGIN: KeyRule = NoEffect("records the origin of the files");
const SPEED: KeyRule = NoEffect("changes the speed, not the result");
const GENERATION: KeyRule = NoEffect("generation of text only");
const OUTPUTS: KeyRule = NoEffect("which outputs a call returns");
const PRECISION: KeyRule = NoEffect("the server's `precision` decides");
const LOADING: KeyRule = NoEffect("how files are found or loaded");
const DECODING: KeyRule = NoEffect("decoding of ids into text, or offsets");
const PADDING: KeyRule = NoEffect("texts are not padded");
const INTERNAL: KeyRule = NoEffect("transformers sets it while it loads");
const IN_JSON: KeyRule = NoEffect("tokenizer.json is read in its place");

/// Every known key of every file.
pub const TABLE: &[KeyGroup] = &[
    // Read by the architectures (`arch/`), which refuse values that they do not compute.
    group(
        Config,
        Obeyed,
        "model_type architectures auto_map vocab_size hidden_size num_hidden_layers num_attention_heads \
         num_key_value_heads head_dim intermediate_size max_position_embeddings type_vocab_size \
         pad_token_id hidden_act hidden_activation layer_norm_eps rms_norm_eps norm_eps \
         position_embedding_type is_decoder add_cross_attention is_causal attention_bias mlp_bias \
         norm_bias layer_types sliding_window use_sliding_window max_window_layers sliding_window_pattern \
         _sliding_window_pattern rope_theta rope_scaling rope_parameters partial_rotary_factor \
         original_max_position_embeddings use_bidirectional_attention attn_logit_softcapping \
         query_pre_attn_scalar rope_local_base_freq matryoshka_dimensions id2label sentence_transformers \
         sbert_ce_default_activation_function relative_attention max_relative_positions pos_att_type \
         position_biased_input position_buckets share_att_key norm_rel_ebd conv_kernel_size \
         embedding_size attention_head_size dim n_layers n_heads hidden_dim activation \
         sinusoidal_pos_embds relative_attention_num_buckets relative_attention_max_distance d_model d_kv \
         d_ff num_layers num_heads layer_norm_epsilon feed_forward_proj dense_act_fn is_gated_act \
         local_attention global_attn_every_n_layers global_rope_theta local_rope_theta classifier_pooling \
         classifier_activation classifier_bias n_embd n_head n_layer n_inner n_positions \
         activation_function qkv_proj_bias mlp_fc1_bias mlp_fc2_bias pad_vocab_size_multiple prenorm \
         causal parallel_block use_rms_norm scale_attn_weights scale_attn_by_inverse_layer_idx \
         rotary_emb_base rotary_emb_fraction rotary_emb_interleaved rotary_emb_scale_base \
         rotary_scaling_factor max_trained_positions layer_norm_type logn_attention_scale pack_qkv \
         feed_forward_type text_config latent_attention_config mask_type is_mask_instruction add_eos",
    ),
    group(
        Config,
        TRAINING,
        "attention_dropout attention_probs_dropout_prob attn_pdrop classifier_dropout dropout \
         dropout_rate embd_pdrop embedding_dropout gradient_checkpointing hidden_dropout_prob \
         initializer_cutoff_factor initializer_factor initializer_range mlp_dropout pooler_dropout \
         qa_dropout resid_pdrop seq_classif_dropout sparse_pred_ignore_index sparse_prediction \
         problem_type use_xentropy tie_word_embeddings",
    ),
    group(
        Config,
        ORIGIN,
        "_name_or_path name_or_path _commit_hash transformers_version",
    ),
    group(Config, PRECISION, "dtype torch_dtype"),
    group(
        Config,
        SPEED,
        "attn_implementation experts_implementation chunk_size_feed_forward deterministic_flash_attn \
         use_flash_attn use_memory_efficient_attention unpad_inputs fused_bias_fc fused_dropout_add_ln \
         use_cache pretraining_tp reorder_and_upcast_attn",
    ),
    group(
        Config,
        GENERATION,
        "bos_token_id eos_token_id cls_token_id sep_token_id num_decoder_layers is_encoder_decoder \
         final_logit_softcapping",
    ),
    group(
        Config,
        OUTPUTS,
        "output_attentions output_hidden_states return_dict label2id num_labels dense_seq_output",
    ),
    group(
        Config,
        NoEffect("layers of other tasks, which are not part of a vector"),
        "pooler_hidden_act pooler_hidden_size emb_pooler decoder_bias legacy parallel_block_tied_norm \
         logn_attention_clip1",
    ),
    group(Config, PADDING, "padding_side add_pad_token"),
    group(
        Config,
        NoEffect("tokenizer_config.json and max_position_embeddings decide"),
        "model_max_length tokenizer_class",
    ),
    group(
        Config,
        Refused("save the model with its full weights: `model.dequantize()`, or fetch the original"),
        "quantization_config",
    ),
    group(
        Config,
        Refused("save the model without it; layers that differ are not computed"),
        "per_layer_config pruned_heads",
    ),
    group(
        Model,
        Obeyed,
        "prompts default_prompt_name similarity_fn_name activation_fn",
    ),
    group(Model, Compared("modules.json"), "model_type"),
    group(Model, ORIGIN, "__version__ requirements"),
    group(Model, PRECISION, "keep_in_fp32_modules"),
    group(
        Model,
        Refused("remove it, and request the columns by `dimensions`"),
        "truncate_dim",
    ),
    group(
        Model,
        Refused("remove it; all entries of a sparse vector are returned"),
        "max_active_dims",
    ),
    group(Modules, Obeyed, "type path"),
    group(Modules, ORIGIN, "idx name"),
    group(
        Modules,
        Refused("remove it; requests pass no arguments to modules"),
        "kwargs",
    ),
    group(Transformer, Obeyed, "max_seq_length do_lower_case"),
    group(Transformer, Compared("the other files"), "transformer_task"),
    group(
        Transformer,
        OfTransformers,
        "model_args model_kwargs config_args config_kwargs processor_kwargs tokenizer_args \
         tokenizer_kwargs",
    ),
    group(
        Transformer,
        Only(&[
            r#"{"text":{"method":"forward","method_output_name":"last_hidden_state"}}"#,
            r#"{"text":{"method":"forward","method_output_name":"logits"}}"#,
        ]),
        "modality_config",
    ),
    group(
        Transformer,
        Only(&[r#""token_embeddings""#, r#""scores""#]),
        "module_output_name",
    ),
    group(
        Transformer,
        Refused("set model_max_length in tokenizer_config.json or max_seq_length here, and remove it"),
        "processing_kwargs query_length document_length query_expansion",
    ),
    group(
        Transformer,
        Refused("put the tokenizer's files into the model's folder, and remove it"),
        "tokenizer_name_or_path",
    ),
    group(Transformer, SPEED, "backend unpad_inputs"),
    group(Transformer, LOADING, "cache_dir trust_remote_code"),
    group(FolderFile::Arguments, Obeyed, "model_max_length"),
    group(
        FolderFile::Arguments,
        LOADING,
        "cache_dir device_map local_files_only low_cpu_mem_usage revision token trust_remote_code \
         use_fast legacy",
    ),
    group(FolderFile::Arguments, PRECISION, "dtype torch_dtype"),
    group(
        FolderFile::Arguments,
        SPEED,
        "attn_implementation unpad_inputs use_flash_attention_2 use_memory_efficient_attention",
    ),
    group(
        FolderFile::Arguments,
        NoEffect("a layer that no vector passes"),
        "add_pooling_layer",
    ),
    group(FolderFile::Arguments, DECODING, "clean_up_tokenization_spaces"),
    group(FolderFile::Arguments, PADDING, "padding padding_side"),
    group(
        Tokenizer,
        Obeyed,
        "added_tokens normalizer pre_tokenizer post_processor model",
    ),
    group(
        Tokenizer,
        Compared("truncation_side of tokenizer_config.json"),
        "truncation",
    ),
    group(Tokenizer, PADDING, "padding"),
    group(Tokenizer, DECODING, "decoder"),
    group(Tokenizer, ORIGIN, "version"),
    group(TokenizerConfig, Obeyed, "model_max_length max_len"),
    group(
        TokenizerConfig,
        Compared("tokenizer.json"),
        "tokenizer_class do_lower_case strip_accents tokenize_chinese_chars add_prefix_space \
         add_bos_token add_eos_token added_tokens_decoder additional_special_tokens extra_special_tokens \
         model_specific_special_tokens bos_token eos_token unk_token sep_token pad_token cls_token \
         mask_token",
    ),
    group(TokenizerConfig, Only(&[r#""right""#]), "truncation_side"),
    group(
        TokenizerConfig,
        Only(&["false"]),
        "split_special_tokens split_by_punct fix_mistral_regex",
    ),
    group(
        TokenizerConfig,
        NoEffect("texts are not messages; a folder without modules.json that has one is refused"),
        "chat_template",
    ),
    group(
        TokenizerConfig,
        PADDING,
        "padding_side pad_to_multiple_of pad_token_type_id",
    ),
    group(
        TokenizerConfig,
        DECODING,
        "clean_up_tokenization_spaces \
         clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output errors trim_offsets",
    ),
    group(
        TokenizerConfig,
        GENERATION,
        "chat_control_tokens response_schema response_template use_default_system_prompt processor_class",
    ),
    group(
        TokenizerConfig,
        IN_JSON,
        "vocab merges vocab_file merges_file tokenizer_file gguf_file extra_ids legacy unk_id \
         post_processor do_basic_tokenize never_split auto_map",
    ),
    group(
        TokenizerConfig,
        NoEffect("max_seq_length or model_max_length decides"),
        "max_length stride truncation_strategy",
    ),
    group(
        TokenizerConfig,
        INTERNAL,
        "_commit_hash backend files_loaded init_inputs is_local local_files_only model_input_names \
         name_or_path tokenizer tokenizer_object tokenizer_padding tokenizer_truncation verbose",
    ),
    group(
        SpecialTokens,
        Compared("tokenizer.json"),
        "bos_token eos_token unk_token sep_token pad_token cls_token mask_token additional_special_tokens \
         extra_special_tokens",
    ),
    group(AddedTokens, Compared("tokenizer.json"), "(each)"),
    group(
        Pooling,
        Obeyed,
        "pooling_mode pooling_mode_cls_token pooling_mode_lasttoken pooling_mode_max_tokens \
         pooling_mode_mean_sqrt_len_tokens pooling_mode_mean_tokens pooling_mode_weightedmean_tokens \
         include_prompt",
    ),
    group(
        Pooling,
        Compared("config.json"),
        "embedding_dimension word_embedding_dimension",
    ),
    group(SpladePooling, Obeyed, "pooling_strategy activation_function"),
    group(SpladePooling, SPEED, "chunk_size"),
    group(
        SpladePooling,
        NoEffect("the vocabulary decides"),
        "embedding_dimension word_embedding_dimension",
    ),
    group(
        Dense,
        Obeyed,
        "in_features out_features bias activation_function use_residual module_input_name \
         module_output_name",
    ),
    group(
        Dense,
        NoEffect("the weights are those of model.safetensors"),
        "init_weight init_bias",
    ),
    group(LayerNorm, Obeyed, "dimension"),
    group(Normalize, Obeyed, "module_input_name module_output_name"),
    group(Dropout, TRAINING, "dropout"),
    group(WordWeights, Obeyed, "vocab word_weights unknown_word_weight"),
    group(WordEmbeddings, Obeyed, "tokenizer_class max_seq_length"),
    group(WordEmbeddings, TRAINING, "update_embeddings"),
    group(WordList, Obeyed, "vocab stop_words do_lower_case"),
];
