#include "worker/labs/data/text/class_values.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "worker/labs/data/files/csv.h"

namespace hvdrun {
namespace {

constexpr std::array<std::string_view, 6> kMissing = {"", "nan", "na", "n/a", "<na>", "null"};
constexpr std::size_t kShown = 5;  // values in a message

std::optional<double> number_of(std::string_view word) {
  if (word.size() > 1 && word[0] == '+' && word[1] != '-') word.remove_prefix(1);
  double value = 0;
  const auto [stop, trouble] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (trouble != std::errc() || stop != word.data() + word.size() || !std::isfinite(value))
    return std::nullopt;
  return value == 0 ? 0 : value;  // not -0
}

// As values are compared.
std::string plain(std::string_view field) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const std::size_t begin = std::min(field.find_first_not_of(kBlanks), field.size());
  field.remove_prefix(begin);
  field = field.substr(0, field.find_last_not_of(kBlanks) + 1);
  if (const auto value = number_of(field)) {
    std::array<char, 32> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), *value).ptr;
    return {digits.data(), end};
  }
  std::string word(field);
  for (char& c : word)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return word;
}

bool is_missing(std::string_view value) {
  return std::find(kMissing.begin(), kMissing.end(), value) != kMissing.end();
}

bool ends_with(std::string_view word, std::string_view end) {
  return word.size() > end.size() && word.substr(word.size() - end.size()) == end;
}

// True when `a` is 0 and `b` is 1.
bool comes_before(const std::string& a, const std::string& b) {
  const auto first = number_of(a);
  const auto second = number_of(b);
  if (first && second) return *first < *second;
  // "not spam", "incorrect", "unhelpful" and their like deny the other one.
  if (ends_with(a, b) || ends_with(b, a)) return a.size() > b.size();
  // The fake is what is looked for.
  if ((a == "real" && b == "fake") || (a == "fake" && b == "real")) return a == "real";
  // No and yes, false and true, negative and positive, bad and good, ham and spam stand like this.
  return a < b;
}

std::string shown(const std::string& value) {
  const std::string word = csv_word(value);
  return word.size() == value.size() + 2 ? value : word;
}

}  // namespace

bool ClassValues::add(std::string_view field) {
  std::string value = plain(field);
  ++rows_;
  if (is_missing(value)) ++missing_;
  const auto found = counts_.find(value);
  if (found != counts_.end()) {
    ++found->second;
    return true;
  }
  if (order_.size() == kMaxClassValues) return false;
  order_.push_back(value);
  counts_.emplace(std::move(value), 1);
  return true;
}

bool ClassValues::choose(std::string& error) {
  std::vector<std::string> classes;
  for (const std::string& value : order_)
    if (!is_missing(value)) classes.push_back(value);
  if (classes.size() < 2) {
    error = "two values are expected, there is: " + seen();
    return false;
  }
  const auto count = [&](const std::string& value) { return counts_.at(value); };
  std::stable_sort(classes.begin(), classes.end(),
                   [&](const std::string& a, const std::string& b) { return count(a) > count(b); });
  // A third class is one, however small beside the others; a slip occurs once, or in few rows of
  // those of the smaller class.
  const std::size_t slip = std::max<std::size_t>(1, count(classes[1]) / 100);
  std::size_t lost = missing_;
  for (std::size_t i = 2; i < classes.size(); ++i) lost += count(classes[i]);
  if (classes.size() > 2 && (count(classes[2]) > slip || lost > rows_ / 100)) {
    error = "two values are expected, there is: " + seen() +
            "; leave rows out, or make two values of them (of stars, 0 for 1 and 2, 1 for 4 and 5)";
    return false;
  }
  if (lost > rows_ / 100) {
    error = std::to_string(lost) + " of " + std::to_string(rows_) +
            " rows have no value; there is: " + seen() + "; leave them out";
    return false;
  }
  zero_ = classes[0];
  one_ = classes[1];
  if (!comes_before(zero_, one_)) std::swap(zero_, one_);
  return true;
}

std::optional<std::uint8_t> ClassValues::label(std::string_view field) const {
  const std::string value = plain(field);
  if (value == one_) return std::uint8_t{1};
  if (value == zero_) return std::uint8_t{0};
  return std::nullopt;
}

std::string ClassValues::note() const {
  if (zero_ == "0" && one_ == "1") return {};
  return "labels: " + shown(one_) + " is 1, " + shown(zero_) + " is 0";
}

std::string ClassValues::seen() const {
  std::string text;
  for (std::size_t i = 0; i < std::min(order_.size(), kShown); ++i)
    text.append(text.empty() ? "" : ", ")
        .append(csv_word(order_[i]))
        .append(" ")
        .append(std::to_string(counts_.at(order_[i])))
        .append(" times");
  if (order_.size() > kShown) text += " and " + std::to_string(order_.size() - kShown) + " more";
  return text;
}

}  // namespace hvdrun
