// Catch2, version 2 (one header) or 3 (a header a part, and a compiled library); the tests use what
// both have, under version 2's names.
#pragma once

#if __has_include(<catch2/catch_test_macros.hpp>)
#include <string>

#include <catch2/catch_approx.hpp>
#include <catch2/catch_message.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/catch_tostring.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <catch2/matchers/catch_matchers_vector.hpp>

namespace Catch {
namespace Matchers {
// Version 3 keeps the name for ranges, whose header would be the better match and is left out.
inline StringContainsMatcher Contains(const std::string& part) { return ContainsSubstring(part); }
}  // namespace Matchers
using Matchers::Contains;
using Matchers::EndsWith;
using Matchers::Matches;
using Matchers::StartsWith;
using Matchers::UnorderedEquals;
}  // namespace Catch

using Catch::Approx;
#else
#include <catch2/catch.hpp>
#endif
