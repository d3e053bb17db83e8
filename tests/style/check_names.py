#!/usr/bin/python3
"""Fails for a function of ours that std has a template of the same name for, called without a namespace.

Argument-dependent look-up adds namespace std to a call without a namespace as soon as an argument is of
std: quoted(text) then means std::quoted, if that fits better, and no compiler warns. So a free function
has a name that std's function templates have not, or it is called with its namespace. The public API's
names stay as they are.

usage: check_names.py [ROOT]     prints FILE:LINE: what is wrong; exit code 1 when something is
"""

import pathlib
import re
import sys

FOLDERS = ["common", "coordinator", "worker", "cli", "tests", "examples"]
PUBLIC = "worker/hvd/include/"
SUFFIXES = {".h", ".cpp", ".cu", ".cuh"}
# The function templates of C++20's headers that look-up by an argument may find.
STD = set("""
    accumulate addressof adjacent_difference adjacent_find advance align all_of any any_cast any_of apply
    arg async back back_inserter begin binary_search bind bit_cast bit_ceil bit_floor bit_width boyer_moore
    call_once cbegin ceil cend clamp cmp_equal cmp_greater cmp_less conj construct_at copy copy_backward copy_if
    copy_n count count_if countl_one countl_zero countr_one countr_zero crbegin crend data declval defaultfloat
    destroy destroy_at destroy_n distance empty end endl ends equal equal_range erase erase_if exchange
    exclusive_scan fill fill_n find find_end find_first_of find_if find_if_not floor flush for_each for_each_n
    forward forward_as_tuple front_inserter from_chars gcd generate generate_n get get_deleter get_if get_money
    get_time getline has_facet has_single_bit holds_alternative in_range includes inclusive_scan inner_product
    inplace_merge inserter invoke iota is_heap is_heap_until is_partitioned is_permutation is_sorted
    is_sorted_until isalnum isalpha isdigit isspace iter_swap kill_dependency launder lcm lerp lock
    lexicographical_compare lower_bound make_any make_exception_ptr make_heap make_move_iterator
    make_optional make_pair make_reverse_iterator make_shared make_tuple make_unique max max_element mem_fn merge
    midpoint min min_element minmax minmax_element mismatch move move_backward move_if_noexcept next
    next_permutation none_of norm not_fn nth_element partial_sort partial_sort_copy partial_sum partition
    partition_copy partition_point polar pop_heap popcount prev prev_permutation push_heap put_money put_time
    quoted rbegin real reduce ref regex_match regex_replace regex_search remove remove_copy remove_copy_if
    remove_if rend replace replace_copy replace_copy_if replace_if rethrow_if_nested reverse reverse_copy rotate
    rotate_copy rotl rotr round sample search search_n set_difference set_intersection set_symmetric_difference
    set_union setfill shift_left shift_right shuffle size sort sort_heap ssize stable_partition stable_sort
    static_pointer_cast swap swap_ranges tie to_address to_array to_chars to_string to_underlying tolower toupper
    transform transform_exclusive_scan transform_inclusive_scan transform_reduce try_lock tuple_cat
    uninitialized_copy uninitialized_fill uninitialized_move unique unique_copy upper_bound use_facet visit
    with_nested
""".split())
# A declaration in a namespace stands at the line's begin, those of a class are set in.
FREE = re.compile(r"^(?!return\b|using\b|else\b|throw\b|typedef\b|#|//)[A-Za-z_][\w:<>,&*\s\[\]]*[\s&*>](\w+)\(",
                  re.MULTILINE)
INCLUDE = re.compile(r'^#include [<"]((?:common|coordinator|worker|cli|tests|hvd)/[^>"]+)[>"]', re.MULTILINE)
NOISE = re.compile(r'//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'')


def code_of(text):
    """The text without comments and literals, line by line; includes are kept."""
    return "\n".join(line if line.startswith("#include") else NOISE.sub("", line)
                     for line in text.split("\n"))


def check(root):
    files = {}
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in SUFFIXES:
                files[str(path.relative_to(root))] = code_of(path.read_text(errors="replace"))
    includes = {
        name: {f"worker/hvd/include/{inner}" if inner.startswith("hvd/") else inner
               for inner in INCLUDE.findall(text)}
        for name, text in files.items()
    }
    public = {found for name, text in files.items() if name.startswith(PUBLIC)
              for found in FREE.findall(text)}
    ours = {name: {found for found in FREE.findall(text) if found in STD and found not in public}
            for name, text in files.items()}

    def visible(name, seen):
        for inner in includes.get(name, ()):
            if inner not in seen:
                seen.add(inner)
                visible(inner, seen)
        return seen

    bad = []
    for name, text in files.items():
        for function in sorted(set().union(*(ours.get(n, set()) for n in {name} | visible(name, set())))):
            call = re.compile(rf"(?<![\w.:>~]){function}\(")
            declared = {match.start(1) for match in FREE.finditer(text)}
            for found in call.finditer(text):
                before = text[max(0, found.start() - 40):found.start()]
                # "Type name(" declares; a keyword or an operator before it makes it a call.
                word = re.search(r"(\w+|[&*>])\s+$", before)
                if found.start() in declared or word and word[1] not in {
                        "return", "throw", "else", "case", "co_return", "&", "*", ">"}:
                    continue
                number = text.count("\n", 0, found.start()) + 1
                bad.append(f"{name}:{number}: {function}() may be taken for std::{function}: rename it")
    return bad


if __name__ == "__main__":
    faults = check(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "."))
    print("\n".join(faults) if faults else "no call is taken for one of std")
    sys.exit(1 if faults else 0)
