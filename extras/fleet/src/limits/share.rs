//! Divides concurrent calls among the processes that want them: max-min fair.

/// The share of each process: nobody gets more than it wants, and unused calls are divided among
/// the others. A remainder goes to the first ones in the given order.
pub(super) fn shares(total: usize, wants: &[usize]) -> Vec<usize> {
    let mut given = vec![0; wants.len()];
    let mut left = total;
    loop {
        let hungry: Vec<usize> = (0..wants.len()).filter(|at| given[*at] < wants[*at]).collect();
        if hungry.is_empty() || left == 0 {
            return given;
        }
        let each = left / hungry.len();
        for at in hungry {
            let more = each.max(1).min(wants[at] - given[at]).min(left);
            given[at] += more;
            left -= more;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_gets_more_than_it_wants_and_the_rest_is_divided_evenly() {
        assert_eq!(shares(10, &[2, 16, 16]), [2, 4, 4]);
        assert_eq!(shares(11, &[2, 16, 16]), [2, 5, 4]);
        assert_eq!(shares(100, &[2, 16, 16]), [2, 16, 16]);
        assert_eq!(shares(2, &[16, 16, 16]), [1, 1, 0]);
        assert_eq!(shares(0, &[1]), [0]);
        assert_eq!(shares(5, &[]), [0; 0]);
    }

    #[test]
    fn all_of_it_is_used_while_anybody_wants_more() {
        for total in 0..30 {
            for wants in [vec![1, 2, 3], vec![7, 0, 7, 7], vec![1; 9], vec![20, 1]] {
                let given = shares(total, &wants);
                let wanted: usize = wants.iter().sum();
                assert_eq!(
                    given.iter().sum::<usize>(),
                    total.min(wanted),
                    "{total} among {wants:?}"
                );
                assert!(given.iter().zip(&wants).all(|(given, want)| given <= want));
            }
        }
    }
}
