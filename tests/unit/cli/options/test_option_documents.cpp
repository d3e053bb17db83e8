#include <algorithm>

#include "cli/options/option_documents.h"
#include "cli/options/option_table.h"
#include "common/base/exit_code.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

std::string without_backslashes(std::string text) {
  text.erase(std::remove(text.begin(), text.end(), '\\'), text.end());
  return text;
}

// fish has "-l name" for --name, "-s n" for -n and "-o name" for -name.
std::string in_fish(std::string_view spelling) {
  const std::string name(spelling.substr(spelling.starts_with("--") ? 2 : 1));
  return (spelling.starts_with("--") ? " -l " : name.size() == 1 ? " -s " : " -o ") + name + " ";
}

TEST_CASE("man page and completions mention every spelling of every option", "[documents]") {
  const std::string man = without_backslashes(option_document("man"));
  const std::string bash = option_document("bash");
  const std::string zsh = option_document("zsh");
  const std::string fish = option_document("fish");
  std::size_t shown = 0;
  for (const OptionRow* const row : option_table()) {
    if (row->page == Page::hidden) continue;
    ++shown;
    for (const std::string_view view : spellings_of(*row)) {
      const std::string spelling(view);
      CAPTURE(spelling);
      CHECK(man.find("fB" + spelling + "fR") != std::string::npos);
      CHECK((bash.find(" " + spelling + " ") != std::string::npos ||
             bash.find(" " + spelling + "'") != std::string::npos ||
             bash.find("'" + spelling + " ") != std::string::npos));
      CHECK((zsh.find("'" + spelling + "[") != std::string::npos ||
             zsh.find("'*" + spelling + "[") != std::string::npos));
      CHECK(fish.find(in_fish(spelling)) != std::string::npos);
    }
  }
  CHECK(shown > 60);
}

TEST_CASE("hidden options are in no document", "[documents]") {
  for (const char* kind : {"man", "bash", "zsh", "fish"}) {
    CAPTURE(kind);
    CHECK(option_document(kind).find("transport") == std::string::npos);
    CHECK(option_document(kind).find("jsrun") == std::string::npos);
  }
}

}  // namespace
}  // namespace hvdrun
