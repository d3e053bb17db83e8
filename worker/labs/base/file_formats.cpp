#include "worker/labs/base/file_formats.h"

#include <algorithm>

#include "common/base/printable.h"

namespace hvdrun {
namespace {

std::vector<std::string> with_pictures(std::vector<std::string> others) {
  others.insert(others.end(), {"avif", "bmp", "eps", "gif", "heic", "ico", "jfif", "jpe", "jpeg",
                               "jpg", "pdf", "png", "ppm", "ps", "svgz", "tif", "tiff", "webp"});
  return others;
}

}  // namespace

std::string extension_of(const std::string& path) {
  const auto slash = path.rfind('/');
  const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  const auto dot = name.rfind('.');
  // ".plot" is a hidden file without one.
  if (dot == std::string::npos || dot == 0) return "";
  std::string extension = name.substr(dot + 1);
  for (char& c : extension)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return extension;
}

const FileFormat& plot_format() {
  static const FileFormat format{"an SVG picture", ".svg",
                                 with_pictures({"csv", "html", "json", "txt"})};
  return format;
}

const FileFormat& report_format() {
  static const FileFormat format{"a table of fields (CSV, or TSV for .tsv)", ".csv or .tsv",
                                 with_pictures({"html", "json", "jsonl", "md", "ods", "parquet",
                                                "svg", "xls", "xlsx", "yaml", "yml"})};
  return format;
}

const FileFormat& metrics_format() {
  static const FileFormat format{"lines of JSON", ".json",
                                 with_pictures({"csv", "html", "md", "ods", "parquet", "svg", "tsv",
                                                "xls", "xlsx", "yaml", "yml"})};
  return format;
}

std::string other_format(const FileFormat& format, const std::string& path) {
  const std::string extension = extension_of(path);
  if (std::find(format.others.begin(), format.others.end(), extension) == format.others.end())
    return "";
  return std::string("writes ") + format.content + "; name it " + format.name_it + ", not " +
         quoted_word(path);
}

}  // namespace hvdrun
