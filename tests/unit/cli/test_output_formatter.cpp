#include <catch2/catch.hpp>

#include "cli/output_formatter.h"

namespace hvdrun {
namespace {

std::string show(OutputFormatter& formatter, std::uint32_t rank, const std::string& bytes,
                 bool partial = false, OutputStream stream = OutputStream::out) {
  return formatter.format({rank, stream, partial, bytes});
}

TEST_CASE("every line has its rank in front", "[output]") {
  OutputFormatter formatter;
  CHECK(show(formatter, 0, "a\nb\n") == "[0]<stdout>:a\n[0]<stdout>:b\n");
  CHECK(show(formatter, 12, "\n", false, OutputStream::err) == "[12]<stderr>:\n");
  CHECK(show(formatter, 1, "10%\r20%\r") == "[1]<stdout>:10%\r[1]<stdout>:20%\r");
  CHECK(show(formatter, 1, "a\r\nb\r\n") == "[1]<stdout>:a\r\n[1]<stdout>:b\r\n");
  const std::string bytes = std::string("\xff") + '\0' + "z\n";
  CHECK(show(formatter, 1, bytes) == "[1]<stdout>:" + bytes);
}

TEST_CASE("a line end that was cut in two stays one", "[output]") {
  OutputFormatter formatter;
  CHECK(show(formatter, 1, "a\r") == "[1]<stdout>:a\r");
  CHECK(show(formatter, 1, "\nb\n") == "\n[1]<stdout>:b\n");
}

TEST_CASE("an unfinished line is continued, or ended before another's", "[output]") {
  OutputFormatter formatter;
  CHECK(show(formatter, 0, "start ", true) == "[0]<stdout>:start ");
  CHECK(show(formatter, 0, "end\n") == "end\n");
  CHECK(show(formatter, 0, "start ", true) == "[0]<stdout>:start ");
  CHECK(show(formatter, 1, "x\n") == "\n[1]<stdout>:x\n");
  CHECK(show(formatter, 0, "end\n") == "[0]<stdout>:end\n");
}

}  // namespace
}  // namespace hvdrun
