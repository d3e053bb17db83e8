#include "cli/options/options.h"
#include "cli/output/output_formatter.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

std::shared_ptr<const RankTable> small_table() {
  return std::make_shared<const RankTable>(std::vector<HostSlots>{{"alpha", 16}, {"beta", 16}}, 32);
}

OutputTag tag_of(const std::string& text, bool timestamp = false, bool color = false) {
  return {text, timestamp, color, small_table()};
}

// 2026-11-21 04:41:41.5 in UTC.
const WallTime kNow{std::chrono::milliseconds(1'795'236'101'500)};

std::string show(OutputFormatter& formatter, std::uint32_t rank, const std::string& bytes,
                 OutputStream stream = OutputStream::out) {
  return formatter.format({rank, stream, false, bytes}, kNow);
}

TEST_CASE("every line has its rank in front", "[output]") {
  OutputFormatter formatter(tag_of("on"));
  CHECK(show(formatter, 0, "a\nb\n") == "[0]<stdout>:a\n[0]<stdout>:b\n");
  CHECK(show(formatter, 12, "\n", OutputStream::err) == "[12]<stderr>:\n");
  CHECK(show(formatter, 1, "10%\r20%\r") == "[1]<stdout>:10%\r[1]<stdout>:20%\r");
  CHECK(show(formatter, 1, "a\r\nb\r\n") == "[1]<stdout>:a\r\n[1]<stdout>:b\r\n");
  CHECK(show(formatter, 1, "1\r2\n3\r\n\r4\n") ==
        "[1]<stdout>:1\r[1]<stdout>:2\n[1]<stdout>:3\r\n[1]<stdout>:\r[1]<stdout>:4\n");
  const std::string bytes = std::string("\xff") + '\0' + "z\n";
  CHECK(show(formatter, 1, bytes) == "[1]<stdout>:" + bytes);
}

TEST_CASE("a line end that was cut in two stays one", "[output]") {
  OutputFormatter formatter(tag_of("on"));
  CHECK(show(formatter, 1, "a\r") == "[1]<stdout>:a\r");
  CHECK(show(formatter, 1, "\nb\n") == "\n[1]<stdout>:b\n");
}

TEST_CASE("an unfinished line is continued, or ended before another's", "[output]") {
  OutputFormatter formatter(tag_of("on"));
  CHECK(show(formatter, 0, "start ") == "[0]<stdout>:start ");
  CHECK(show(formatter, 0, "end\n") == "end\n");
  CHECK(show(formatter, 0, "start ") == "[0]<stdout>:start ");
  CHECK(show(formatter, 1, "x\n") == "\n[1]<stdout>:x\n");
  CHECK(show(formatter, 0, "end\n") == "[0]<stdout>:end\n");
  CHECK(show(formatter, 0, "start ") == "[0]<stdout>:start ");
  CHECK(formatter.format_notice("hvdrun: so\n") == "\nhvdrun: so\n");
}

TEST_CASE("a last line without an end gets one on display, but not when shown as it is",
          "[output]") {
  OutputFormatter tagged(tag_of("on"));
  CHECK(show(tagged, 0, "rest") == "[0]<stdout>:rest");
  CHECK(tagged.format_end(0, OutputStream::err).empty());
  CHECK(tagged.format_end(0, OutputStream::out) == "\n");
  CHECK(tagged.format_end(0, OutputStream::out).empty());
  OutputFormatter raw(tag_of("off"));
  CHECK(show(raw, 0, "rest") == "rest");
  CHECK(raw.format_end(0, OutputStream::out).empty());
  CHECK(show(raw, 1, "x\n") == "\nx\n");
}

TEST_CASE("a tag is a template", "[output]") {
  OutputFormatter formatter(tag_of("{{{host}}} {rank}/{local_rank} {stream}{time}|"));
  CHECK(show(formatter, 17, "a\n").substr(0, 23) == "{beta} 17/1 stdout2026-");
  CHECK(show(formatter, 17, "a\n").ends_with(":41.500|a\n"));
  CHECK(formatter.format_folded({0, 1, 2, 17}, OutputStream::err, "x\n", kNow)
            .starts_with("{2 hosts} 0-2,17/0-2 stderr2026-"));
  CHECK(formatter.format_folded({16, 17}, OutputStream::err, "x\n", kNow)
            .starts_with("{beta} 16-17/0-1 stderr"));
  for (const std::string bad : {"{ranc}", "{rank", "rank}", "{}", "{0}"}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(check_tag(bad), UsageError);
  }
}

TEST_CASE("a timestamp stands before the tag, as asctime writes it", "[output]") {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): one thread
  ::setenv("TZ", "UTC", 1);
  ::tzset();
  OutputFormatter formatter(tag_of("on", true));
  CHECK(show(formatter, 0, "hi\n") == "Sat Nov 21 04:41:41 2026[0]<stdout>:hi\n");
  OutputFormatter raw(tag_of("off", true));
  CHECK(show(raw, 0, "hi\n") == "Sat Nov 21 04:41:41 2026 hi\n");
}

TEST_CASE("colour is around the tag alone, and stderr is told from stdout", "[output]") {
  OutputFormatter formatter(tag_of("on", false, true));
  const std::string out = show(formatter, 0, "hi\n");
  const std::string err = show(formatter, 0, "hi\n", OutputStream::err);
  const std::string other = show(formatter, 1, "hi\n");
  CHECK(out == "\x1b[36m[0]<stdout>:\x1b[0mhi\n");
  CHECK(err == "\x1b[7;36m[0]<stderr>:\x1b[0mhi\n");
  CHECK(other.substr(0, 5) != out.substr(0, 5));
  // The rest that a progress bar has left in the line goes.
  CHECK(show(formatter, 0, "10%\r").ends_with("10%\r"));
  CHECK(show(formatter, 1, "hi\n").starts_with("\x1b[K\x1b["));
}

TEST_CASE("ranks are told as ranges", "[output]") {
  CHECK(to_ranges({7}) == "7");
  CHECK(to_ranges({0, 1}) == "0-1");
  CHECK(to_ranges({0, 1, 2, 5}) == "0-2,5");
  CHECK(to_ranges({1, 3, 4, 9}) == "1,3-4,9");
}

}  // namespace
}  // namespace hvdrun
