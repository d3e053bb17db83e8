#include <string>
#include <vector>

#include "tests/catch.h"
#include "worker/labs/data/files/csv.h"

namespace hvdrun {
namespace {

using Row = std::vector<std::string>;

CsvTable table_of(const std::string& text) {
  std::string error;
  const auto parsed = parse_csv("f.csv", text, error);
  INFO(error);
  REQUIRE(parsed);
  return *parsed;
}

std::string csv_error(const std::string& text) {
  std::string error;
  REQUIRE_FALSE(parse_csv("f.csv", text, error));
  CHECK(error.find('\n') == std::string::npos);
  return error;
}

TEST_CASE("fields may contain commas, line breaks and quotes when they are quoted", "[csv]") {
  const CsvTable read = table_of(
      "label,text\r\n"
      "1,plain\n"
      "\n"
      "0,\"a, b\"\r\n"
      "\"1\",\"two\nlines, \"\"quoted\"\"\"\n"
      "0,\n"
      "1,the last line has no end");
  CHECK(read.columns == Row{"label", "text"});
  REQUIRE(read.rows.size() == 5);
  CHECK(read.rows[0] == Row{"1", "plain"});
  CHECK(read.rows[1] == Row{"0", "a, b"});
  CHECK(read.rows[2] == Row{"1", "two\nlines, \"quoted\""});
  CHECK(read.rows[3] == Row{"0", ""});
  CHECK(read.rows[4] == Row{"1", "the last line has no end"});
  CHECK(read.skipped == 0);
  CHECK(read.column("text") == 1);
  CHECK_FALSE(read.column("Text"));
}

TEST_CASE("a quote within a plain field stands for itself, as does a lone CR", "[csv]") {
  const CsvTable read = table_of("a,b\nsay \"no\",x\ry\n");
  REQUIRE(read.rows.size() == 1);
  CHECK(read.rows[0] == Row{"say \"no\"", "x\ry"});
}

TEST_CASE("a byte order mark is no part of the first column", "[csv]") {
  CHECK(table_of("\xef\xbb\xbf"
                 "a,b\n1,2\n")
            .column("a") == 0);
  // But bytes are counted with it, as an editor or dd counts them.
  CHECK(csv_error("\xef\xbb\xbf"
                  "a,b\n\"1\n") == "f.csv:2: byte 7: a quote that is never closed");
}

TEST_CASE("tabs or semicolons may stand for commas, as the first line tells", "[csv]") {
  const CsvTable tabs = table_of("a, b\ttext\r\n1\tx, y; z\r\n2\t\"a\tb\nc\"\r\n");
  CHECK(tabs.columns == Row{"a, b", "text"});
  CHECK(tabs.rows == std::vector<Row>{{"1", "x, y; z"}, {"2", "a\tb\nc"}});
  CHECK(tabs.skipped == 0);
  CHECK(std::string(tabs.separator) == "a tab");
  const CsvTable semicolons = table_of("a;text\n1;x, y\n\"2;3\";z\n");
  CHECK(semicolons.rows == std::vector<Row>{{"1", "x, y"}, {"2;3", "z"}});
  // A semicolon in quotes is no separator; one column has none.
  CHECK(table_of("\"a;\"\";;b\",c\n1,2\n").columns == Row{"a;\";;b", "c"});
  CHECK(table_of("text\nx;y\n").rows == std::vector<Row>{{"x;y"}});
  CHECK(std::string(table_of("text\nx\n").separator) == "a comma");
  CHECK(csv_error("a\tb\n\"x\" y\t1\n") ==
        "f.csv:2: byte 7: after a closing quote a tab or the end of the line is expected");
}

TEST_CASE("columns may have no name, as that of the rows' numbers", "[csv]") {
  const CsvTable read = table_of(",text,,label\n0,words,x,1\n");
  CHECK(read.columns == Row{"", "text", "", "label"});
  CHECK(read.rows == std::vector<Row>{{"0", "words", "x", "1"}});
  CHECK(read.column("label") == 3);
}

TEST_CASE("long words are cut in messages, between letters", "[csv]") {
  CHECK(csv_word("short") == "'short'");
  CHECK(csv_word(std::string(40, 'x')) == "'" + std::string(40, 'x') + "'");
  CHECK(csv_word(std::string(39, 'x') + "\xc3\xa9 and more") ==
        "'" + std::string(39, 'x') + "'...");
  CHECK(csv_error(std::string(90, 'a') + "," + std::string(90, 'a')).size() < 100);
}

TEST_CASE("every row knows its line and its byte", "[csv]") {
  const CsvTable read = table_of("\r\na,b\n\n1,\"x\ny\"\r\n2\n3,4\n");
  CHECK(csv_place("f", read.header) == "f:2: byte 2");
  REQUIRE(read.places.size() == 2);
  CHECK(csv_place("f", read.places[0]) == "f:4: byte 7");
  CHECK(csv_place("f", read.places[1]) == "f:7: byte 18");
}

TEST_CASE("rows with another number of fields are left out and counted", "[csv]") {
  const CsvTable read = table_of("a,b\n1,2\n3\n4,\"x\ny\"\n5,6,7\n");
  CHECK(read.rows == std::vector<Row>{{"1", "2"}, {"4", "x\ny"}});
  CHECK(read.skipped == 2);
  CHECK(read.first_skipped == "f.csv:3: byte 8: 1 fields, 2 expected");
}

TEST_CASE("what is no table is one line with the place", "[csv]") {
  CHECK(csv_error("") == "f.csv:1: byte 0: no row with the names of the columns");
  CHECK(csv_error("\n\r\n") == "f.csv:1: byte 0: no row with the names of the columns");
  CHECK(csv_error("a,b,a\n") == "f.csv:1: byte 0: two columns are called 'a'");
  CHECK(csv_error("a,b\n1,2\n3,\"x\ny\n") == "f.csv:3: byte 10: a quote that is never closed");
  CHECK(csv_error("a,b\n1,\"x\" y\n") ==
        "f.csv:2: byte 9: after a closing quote a comma or the end of the line is expected");
  CHECK(csv_error(std::string(kMaxCsvColumns, ',')) ==
        "f.csv:1: byte 1000: more than 1000 fields in a row");
  CHECK(csv_error("a\n" + std::string(kMaxCsvField + 1, 'x')) ==
        "f.csv:2: byte 2: a field of 1048577 bytes, at most 1048576 expected");
}

TEST_CASE("what is written as a field is read as it was", "[csv]") {
  const std::vector<std::string> values{"",           "plain", "a,b", "\"",   "x\"y\"",
                                        "two\nlines", "cr\r",  " s ", "a\tb", "a;b;c"};
  std::string text = "value,end\n";
  for (const std::string& value : values) text += csv_field(value) + ",.\n";
  const CsvTable read = table_of(text);
  REQUIRE(read.rows.size() == values.size());
  for (std::size_t i = 0; i < values.size(); ++i) CHECK(read.rows[i][0] == values[i]);
}

}  // namespace
}  // namespace hvdrun
