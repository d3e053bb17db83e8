// Pixels of every kind of PNG and JPEG, as Pillow has them.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/catch.h"
#include "tests/unit/worker/labs/data/temporary_folder.h"
#include "worker/labs/data/files/whole_file.h"
#include "worker/labs/data/images/image.h"

namespace hvdrun {
namespace {

bool runs(const std::string& command) {
  return std::system(command.c_str()) == 0;  // NOLINT(cert-env33-c,concurrency-mt-unsafe)
}

std::string bytes_of_file(const std::string& path) {
  std::string error;
  const auto bytes = read_whole_file(path, kMaxImagePixels, error);
  INFO(error);
  REQUIRE(bytes);
  return *bytes;
}

TEST_CASE("pictures of every kind have the colours that Pillow gives them", "[image]") {
  const char* const source = std::getenv("HVD_TEST_SOURCE");  // NOLINT(concurrency-mt-unsafe)
  REQUIRE(source != nullptr);
  if (!runs("/usr/bin/python3 -c 'import PIL' 2>/dev/null")) {
    WARN("skipped: no /usr/bin/python3 with PIL (Debian's python3-pil)");
    return;
  }
  const test::TemporaryFolder folder;
  REQUIRE(runs("/usr/bin/python3 -W ignore '" + std::string(source) +
               "/tests/unit/worker/labs/data/pictures.py' '" + folder.path() + "'"));
  std::size_t pictures = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    const std::string path = entry.path();
    if (entry.path().extension() == ".rgb") continue;
    CAPTURE(path);
    ++pictures;
    std::string error;
    const auto image = decode_image(bytes_of_file(path), {}, error);
    INFO(error);
    REQUIRE(image);
    const std::string wanted = bytes_of_file(path + ".rgb");
    REQUIRE(image->pixels.size() == wanted.size());
    int most = 0;
    for (std::size_t i = 0; i < wanted.size(); ++i)
      most = std::max(most, std::abs(image->pixels[i] - static_cast<std::uint8_t>(wanted[i])));
    // A JPEG's numbers depend a little on the library's version.
    CHECK(most <= (entry.path().extension() == ".jpg" ? 3 : 0));
  }
  CHECK(pictures > 80);
}

}  // namespace
}  // namespace hvdrun
