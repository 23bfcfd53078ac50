//! numpy's `SeedSequence`: spreads an integer over the words that seed a generator (after O'Neill's
//! `seed_seq_fe`).

const POOL: usize = 4;
const INIT_A: u32 = 0x43b0_d7e5;
const MULT_A: u32 = 0x931e_8875;
const INIT_B: u32 = 0x8b51_f9dd;
const MULT_B: u32 = 0x58f3_8ded;
const MIX_LEFT: u32 = 0xca01_f9dd;
const MIX_RIGHT: u32 = 0x4973_f715;

/// Hashes words with a constant that changes from word to word.
struct Hasher(u32);

impl Hasher {
    fn hash(&mut self, word: u32) -> u32 {
        let mut value = word ^ self.0;
        self.0 = self.0.wrapping_mul(MULT_A);
        value = value.wrapping_mul(self.0);
        value ^ (value >> 16)
    }
}

fn mix(x: u32, y: u32) -> u32 {
    let value = MIX_LEFT.wrapping_mul(x).wrapping_sub(MIX_RIGHT.wrapping_mul(y));
    value ^ (value >> 16)
}

/// `SeedSequence(seed).generate_state(words, uint64)`.
pub(super) fn state_words(seed: u64, words: usize) -> Vec<u64> {
    // 0 also takes one word. A 64-bit seed takes at most two, so it fits the pool.
    let entropy = [seed as u32, (seed >> 32) as u32];
    let given = if entropy[1] == 0 { 1 } else { 2 };
    let mut hasher = Hasher(INIT_A);
    let mut pool = [0_u32; POOL];
    for (i, slot) in pool.iter_mut().enumerate() {
        *slot = hasher.hash(if i < given { entropy[i] } else { 0 });
    }
    for source in 0..POOL {
        for target in 0..POOL {
            if source != target {
                pool[target] = mix(pool[target], hasher.hash(pool[source]));
            }
        }
    }
    let mut constant = INIT_B;
    let mut next = (0..words * 2).map(|i| {
        let mut value = pool[i % POOL] ^ constant;
        constant = constant.wrapping_mul(MULT_B);
        value = value.wrapping_mul(constant);
        value ^ (value >> 16)
    });
    let mut state = Vec::with_capacity(words);
    while let (Some(low), Some(high)) = (next.next(), next.next()) {
        state.push(u64::from(low) | (u64::from(high) << 32));
    }
    state
}
