//! Delta debugging (Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input").

/// Returns a part of the items, in their order, that still fails and of which no single item can be left out.
pub fn ddmin<T: Clone>(items: Vec<T>, fails: &mut impl FnMut(&[T]) -> bool) -> Vec<T> {
    if items.is_empty() || fails(&[]) {
        return Vec::new();
    }
    let mut items = items;
    let mut parts = 2;
    while items.len() > 1 {
        let size = items.len().div_ceil(parts);
        let chunks: Vec<Vec<T>> = items.chunks(size).map(<[T]>::to_vec).collect();
        if let Some(chunk) = chunks.iter().find(|chunk| chunk.len() < items.len() && fails(chunk)) {
            items.clone_from(chunk);
            parts = 2;
            continue;
        }
        let without = |left_out: usize| -> Vec<T> {
            let others = chunks.iter().enumerate().filter(|(index, _)| *index != left_out);
            others.flat_map(|(_, chunk)| chunk.clone()).collect()
        };
        // With two chunks, the rest without one is the other.
        let rest = (0..chunks.len()).filter(|_| chunks.len() > 2).map(without).find(|rest| fails(rest));
        match rest {
            Some(rest) => {
                items = rest;
                parts = (parts - 1).max(2);
            }
            None if size == 1 => break,
            None => parts = (parts * 2).min(items.len()),
        }
    }
    items
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_error_without_any_item_needs_none() {
        assert_eq!(ddmin(vec![1, 2, 3], &mut |_| true), Vec::<i32>::new());
    }

    #[test]
    fn two_items_that_matter_together_are_found() {
        let mut attempts = 0;
        let result = ddmin((0..100).collect(), &mut |items: &[i32]| {
            attempts += 1;
            items.contains(&17) && items.contains(&83)
        });
        assert_eq!(result, [17, 83]);
        assert!(attempts < 100, "{attempts}");
    }

    proptest! {
        #[test]
        fn the_result_fails_and_no_item_can_be_left_out(
            length in 1_usize..40,
            needed in prop::collection::btree_set(0_usize..40, 0..6),
        ) {
            let needed: Vec<_> = needed.into_iter().filter(|item| *item < length).collect();
            let mut fails = |items: &[usize]| needed.iter().all(|item| items.contains(item));
            let result = ddmin((0..length).collect(), &mut fails);
            prop_assert_eq!(result, needed);
        }

        /// A test that is not monotonic: more items may hide the error.
        #[test]
        fn one_minimality_holds_for_any_test(salt in any::<u64>(), length in 1_usize..14) {
            let all: Vec<usize> = (0..length).collect();
            let hash = |items: &[usize]| {
                let start = salt | 1;
                items.iter().fold(start, |hash, item| (hash ^ *item as u64).wrapping_mul(0x0100_0000_01b3)) >> 7
            };
            let mut fails = |items: &[usize]| items == all || hash(items) % 3 == 0;
            let result = ddmin(all.clone(), &mut fails);
            prop_assert!(fails(&result));
            if result.len() > 1 {
                for left_out in 0..result.len() {
                    let mut fewer = result.clone();
                    fewer.remove(left_out);
                    prop_assert!(!fails(&fewer));
                }
            }
        }
    }
}
