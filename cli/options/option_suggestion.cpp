#include "cli/options/option_suggestion.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "cli/options/option_table.h"

namespace hvdrun {
namespace {

constexpr std::size_t kMaxWord = 64;

constexpr std::size_t kLeastBeginning = 5;  // "--tag"
constexpr std::size_t kMaxMeant = 8;

// Characters to insert, remove or replace.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string nearest_option(std::string_view word) {
  word = word.substr(0, word.find('='));
  if (word.size() < 4 || word.size() > kMaxWord) return {};
  std::string best;
  std::size_t least = 3;  // two slips are a misspelling, three are another word
  for (const OptionRow* const row : option_table()) {
    if (row->page == Page::hidden) continue;
    for (const std::string_view spelling : spellings_of(*row)) {
      const std::size_t distance = edit_distance(word, spelling);
      if (distance >= least) continue;
      least = distance;
      best = spelling;
    }
  }
  return best;
}

std::string abbreviation_advice(std::string_view word) {
  word = word.substr(0, word.find('='));
  if (word.size() < kLeastBeginning || !word.starts_with("--")) return {};
  std::string list;
  std::vector<const OptionRow*> meant;
  for (const OptionRow* const row : option_table()) {
    if (row->page == Page::hidden && row->topic != Topic::mpirun) continue;
    const auto spellings = spellings_of(*row);
    const auto found =
        std::find_if(spellings.begin(), spellings.end(),
                     [&](std::string_view spelling) { return spelling.starts_with(word); });
    if (found == spellings.end()) continue;
    meant.push_back(row);
    list.append(list.empty() ? "" : ", ").append(*found);
  }
  if (meant.empty() || meant.size() > kMaxMeant) return {};
  if (meant.size() > 1) return "options are written out: which of " + list + " is it?";
  // A row that is hidden is there to say what replaces it.
  return meant.front()->page == Page::hidden
             ? list + " of another launcher: " + meant.front()->detail
             : "options are written out: " + list;
}

}  // namespace hvdrun
