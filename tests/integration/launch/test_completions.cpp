// The completions in the shells that they are for.
#include <algorithm>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/integration/helpers/run_program.h"

namespace hvdrun::test {
namespace {

using Lines = std::vector<std::string>;

Lines lines_of(const std::string& text) {
  Lines lines;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

// The completion script of a shell, as `name`.
void write_script(const TempFolder& folder, const std::string& kind, const std::string& name) {
  const RunResult script = hvdrun({"--generate", kind});
  REQUIRE(script.exit_code == 0);
  folder.file(name, script.out);
}

const Lines kTimelines = {"--timeline-filename", "--timeline-mark-cycles"};

TEST_CASE("bash completes options, their values and programs", "[completion]") {
  TempFolder folder;
  write_script(folder, "bash", "hvdrun.bash");
  folder.file("try", R"(source ./hvdrun.bash
complete -p hvdrun >/dev/null || exit 1
COMP_WORDS=(hvdrun "$@") COMP_CWORD=$#
_hvdrun
((${#COMPREPLY[@]} == 0)) || printf '%s\n' "${COMPREPLY[@]}")");
  const auto complete = [&](Lines words) {
    words.insert(words.begin(), {"bash", "try"});
    return lines_of(run({.args = words, .cwd = folder.path()}).out);
  };
  CHECK(complete({"--timel"}) == kTimelines);
  CHECK(complete({"--mca", "btl", "self", "--timel"}) == kTimelines);
  CHECK(complete({"-np", "2", "--isolation", "p"}) == Lines{"pidns"});
  CHECK(complete({"-np", "2", "./t"}) == Lines{"./try"});
  CHECK(complete({"-np", "2", "./try", "--timel"}).empty());
  // The words as readline has them.
  CHECK(complete({"-H", "gpu1", ":", "4", "--timel"}) == kTimelines);
  CHECK(complete({"-np", "=", "2", "FOO", "=", "a", ":", "b", "--timel"}) == kTimelines);
  CHECK(complete({"--isolation", "=", "p"}) == Lines{"pidns"});
  CHECK(complete({"--isolation", "="}).size() == 4);
  CHECK(complete({"FOO", "=", "1", "./try", "--timel"}).empty());
  // A value that may be left out.
  CHECK(complete({"--tag-output", "--timel"}) == kTimelines);
  CHECK(complete({"--tag-output", "off", "--timel"}) == kTimelines);
  CHECK(complete({"--tag-output", "{rank} ", "--timel"}) == kTimelines);
  CHECK(complete({"--tag-output", "./t"}) == Lines{"./try"});
  CHECK(complete({"--tag-output", "./try", "--timel"}).empty());
}

TEST_CASE("fish completes options, their values and programs", "[completion]") {
  TempFolder folder;
  write_script(folder, "fish", "hvdrun.fish");
  folder.file("try", "");
  const auto complete = [&](const std::string& line) {
    const RunResult result =
        run({.args = {"fish", "--no-config", "-c",
                      "source ./hvdrun.fish; complete -C " + ("'" + line + "'")},
             .env = {{"HOME", folder.path()}},
             .cwd = folder.path()});
    CHECK(result.exit_code == 0);
    const std::string begun = line.substr(line.rfind(' ') + 1);
    Lines words;
    for (const std::string& item : lines_of(result.out)) {
      std::string word = item.substr(0, item.find('\t'));  // then comes its description
      // fish 4 offers words that have it in their middle, too.
      if (word.starts_with(begun)) words.push_back(std::move(word));
    }
    return words;
  };
  CHECK(complete("hvdrun --timel") == kTimelines);
  CHECK(complete("hvdrun --mca btl self --timel") == kTimelines);
  CHECK(complete("hvdrun -np 2 --isolation p") == Lines{"pidns"});
  CHECK(complete("hvdrun -np 2 ./t") == Lines{"./try"});
  CHECK(complete("hvdrun -np 2 ./try --timel").empty());
  CHECK(complete("hvdrun -H gpu1:4 FOO=a:b --timel") == kTimelines);
  CHECK(complete("hvdrun FOO=1 ./try --timel").empty());
  CHECK(complete("hvdrun --tag-output --timel") == kTimelines);
  CHECK(complete("hvdrun --tag-output off --timel") == kTimelines);
  CHECK(complete("hvdrun --tag-output=of") == Lines{"--tag-output=off"});
  CHECK(complete("hvdrun --tag-output ./try --timel").empty());
}

TEST_CASE("zsh completes options and their values", "[completion]") {
  TempFolder folder;
  write_script(folder, "zsh", "_hvdrun");
  // zsh completes only at a terminal of its own. What it has made of the line is run as a function
  // that writes its words.
  folder.file("try", R"(zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell "PS1=; fpath=($PWD \$fpath); autoload -Uz compinit; compinit -u -D"
zpty -w shell "hvdrun() { print -rl -- \"\$@\" >words; }; print ready''now"
while zpty -r shell line; do [[ $line == *readynow* ]] && break; done
zpty -w -n shell $'hvdrun --isolation pi\t --timeline-f\tx -np 2 FOO=1 --timeline-m\t\n'
for i in {1..100}; do [[ -s words ]] && break; sleep 0.1; done
zpty -d shell)");
  const RunResult result =
      run({.args = {"zsh", "-f", "try"}, .env = {{"TERM", "dumb"}}, .cwd = folder.path()});
  CAPTURE(result.out, result.err);
  const RunResult words = run({.args = {"cat", "words"}, .cwd = folder.path()});
  CHECK(lines_of(words.out) == Lines{"--isolation", "pidns", "--timeline-filename", "x", "-np", "2",
                                     "FOO=1", "--timeline-mark-cycles"});
}

}  // namespace
}  // namespace hvdrun::test
