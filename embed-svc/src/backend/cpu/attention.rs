//! Attention of packed texts: one task per text, or one task per key head if a few long texts would
//! leave threads idle. Heads are independent in an attention, so both ways give the same bits.

use std::cell::RefCell;

use isomer_kernels::{
    attention::{self, ScoreTerms, Scratch, Shape, self_attention},
    rotary::rotate,
};
use rayon::prelude::*;

use super::{Attention, Cpu, States, Threads, buffer::Buffer};
use crate::batch::TokenBatch;

/// Minimum length of a text whose heads are distributed over idle threads.
const LONG: usize = 96;

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// Computes rows of context from rows with queries, keys and values side by side.
pub(super) fn attend(mut qkv: States, batch: &TokenBatch, how: &Attention<'_, Cpu>) -> States {
    let heads = how.heads;
    let (columns, hidden, threads) = (heads.columns(), heads.query * heads.width, qkv.threads);
    let mut out = States::new(qkv.rows(), hidden, threads);
    let mut rest = (qkv.values.values_mut(), out.values.values_mut());
    let mut texts = Vec::with_capacity(batch.texts());
    for range in batch.ranges() {
        let (text, after) = rest.0.split_at_mut(range.len() * columns);
        let (out, out_after) = rest.1.split_at_mut(range.len() * hidden);
        texts.push((text, out));
        rest = (after, out_after);
    }
    let idle = texts.len() < 2 * rayon::current_num_threads();
    let one_text = |(text, out): (&mut [f32], &mut [f32])| {
        prepare(text, how);
        heads_of(text, how, 0..heads.key, out);
    };
    match threads {
        Threads::One => texts.into_iter().for_each(one_text),
        Threads::All => texts.into_par_iter().for_each(|(text, out)| {
            if idle && heads.key > 1 && text.len() >= LONG * columns {
                by_heads(text, how, out);
            } else {
                one_text((text, out));
            }
        }),
    }
    out
}

/// A long text, on all threads.
fn by_heads(text: &mut [f32], how: &Attention<'_, Cpu>, out: &mut [f32]) {
    prepare(text, how);
    let heads = how.heads;
    let (columns, width, times) = (heads.columns(), heads.width, heads.query / heads.key);
    let n = text.len() / columns;
    let text = &*text;
    let contexts: Vec<Buffer> = (0..heads.key)
        .into_par_iter()
        .map(|key| {
            // The columns of this key head and of the queries that share it, as a separate text.
            let mut own = Buffer::take(n * (times + 2) * width);
            let rows = own.values_mut().chunks_exact_mut((times + 2) * width);
            for (own, row) in rows.zip(text.chunks_exact(columns)) {
                let (queries, shared) = own.split_at_mut(times * width);
                let (keys, values) = shared.split_at_mut(width);
                queries.copy_from_slice(&row[key * times * width..(key + 1) * times * width]);
                let first = (heads.query + key) * width;
                keys.copy_from_slice(&row[first..first + width]);
                values.copy_from_slice(&row[first + heads.key * width..][..width]);
            }
            let mut context = Buffer::take(n * times * width);
            heads_of(&own, how, key..key + 1, context.values_mut());
            context
        })
        .collect();
    let rows = out.par_chunks_exact_mut(heads.query * width);
    rows.enumerate().for_each(|(row, out)| {
        for (out, context) in out.chunks_exact_mut(times * width).zip(&contexts) {
            out.copy_from_slice(&context[row * times * width..(row + 1) * times * width]);
        }
    });
}

/// Attention of one text that contains only these key heads and the queries that share them.
fn heads_of(text: &[f32], how: &Attention<'_, Cpu>, keys: std::ops::Range<usize>, out: &mut [f32]) {
    let times = how.heads.query / how.heads.key;
    let shape = Shape {
        heads: keys.len() * times,
        key_heads: keys.len(),
        head_dim: how.heads.width,
        scale: how.scale,
    };
    let queries = keys.start * times..keys.end * times;
    let bias = how.bias.map(|bias| {
        let row = 2 * bias.longest - 1;
        attention::Bias {
            by_distance: &bias.by_distance[queries.start * row..queries.end * row],
            longest: bias.longest,
        }
    });
    let positions = how.positions.map(|positions| attention::Positions {
        keys: &positions.keys[queries.clone()],
        queries: &positions.queries[queries.clone()],
        row: &positions.row,
        longest: positions.longest,
    });
    let added = ScoreTerms { bias, positions };
    let n = text.len() / shape.row();
    SCRATCH.with_borrow_mut(|scratch| self_attention(text, n, shape, how.span, added, scratch, out));
}

/// Normalises and rotates the queries and keys of one text.
fn prepare(text: &mut [f32], how: &Attention<'_, Cpu>) {
    if how.query_norm.is_none() && how.key_norm.is_none() && how.rotary.is_none() {
        return;
    }
    let (columns, width) = (how.heads.columns(), how.heads.width);
    let (queries, keys) = (how.heads.query * width, how.heads.key * width);
    let rotary = how
        .rotary
        .map(|rotary| (rotary.angles(text.len() / columns), rotary.rotation.pairs));
    for (position, row) in text.chunks_exact_mut(columns).enumerate() {
        if let Some(norm) = how.query_norm {
            norm.rows(&mut row[..queries]);
        }
        if let Some(norm) = how.key_norm {
            norm.rows(&mut row[queries..queries + keys]);
        }
        if let Some((angles, pairs)) = &rotary {
            let half = angles.cos.len() / angles.length.max(1);
            let at = position * half..(position + 1) * half;
            let (cos, sin) = (&angles.cos[at.clone()], &angles.sin[at]);
            rotate(&mut row[..queries + keys], width, cos, sin, *pairs);
        }
    }
}
