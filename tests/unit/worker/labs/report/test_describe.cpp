// The words of `train --describe` on each lab model.
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>

#include "tests/unit/worker/hvd/torch/catch_with_torch.h"
#include "worker/labs/models/registry.h"
#include "worker/labs/report/describe.h"
#include "worker/labs/report/recipe_text.h"

namespace hvdrun {
namespace {

using Catch::Matchers::Contains;

struct Described {
  std::size_t lines;        // of layers
  const char* first_layer;  // its line
  const char* last_layer;
};

TEST_CASE("every model is described by its names, its layers and their sum", "[describe]") {
  const std::map<std::string, Described> expected = {
      {"mnist-cnn",
       {6, "conv1  Conv2d        [1, 10, 24, 24]            260",
        "fc2    Linear        [1, 10]                    510"}},
      {"mnist-linear",
       {1, "fc     Linear        [1, 10]                   7850",
        "fc     Linear        [1, 10]                   7850"}},
      {"resnet50",
       {109, "conv1                  Conv2d        [1, 64, 112, 112]         9408",
        "fc                     Linear        [1, 1000]              2049000"}},
      {"alexnet-owt",
       {12, "features.0    Conv2d        [1, 64, 55, 55]          23296",
        "classifier.6  Linear        [1, 1000]              4097000"}},
      {"artists-resnet",
       {109, "conv1                  Conv2d        [1, 64, 112, 112]         9408",
        "fc                     Linear        [1, 10]                  20490"}},
      {"wrn-16-10",
       {33, "conv               Conv2d        [1, 16, 28, 28]            160",
        "fc                 Linear        [1, 10]                   6410"}},
      {"text-nnlm",
       {4, "embedding  EmbeddingBag  [1, 128]              16777216",
        "fc3        Linear        [1, 1]                      65"}},
      {"svhn-cnn",
       {14, "pair1.0  Conv2d        [1, 32, 32, 32]            896",
        "fc2      Linear        [1, 10]                   1290"}},
  };
  const char* const source = std::getenv("HVD_TEST_SOURCE");  // NOLINT(concurrency-mt-unsafe)
  REQUIRE(source != nullptr);
  std::ifstream file(std::string(source) + "/docs/models.md");
  const std::string page((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  REQUIRE(!page.empty());
  for (const ModelInfo& info : models()) {
    CAPTURE(info.name);
    ModelShape shape = info.shape;
    if (info.classes_of_data) shape.classes = 10;
    const std::string text = describe_model(info, shape, info.recipe);
    CAPTURE(text);
    std::istringstream in(text);
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    REQUIRE(lines.size() > 7);
    CHECK(lines[0] == std::string(info.name) + ": " + info.summary);
    CHECK(lines[1] == std::string("data: ") + info.data.name);
    CHECK(lines[2] == std::string("source: ") + info.source);
    CHECK(lines[3] == "recipe: " + recipe_text(info.recipe, info.shape.dropout));
    // Where a user looks for it without the program.
    CHECK_THAT(page, Contains("| `" + std::string(info.name) + "` | " + lines[3].substr(8) + " |"));
    CHECK(lines[4].empty());
    CHECK_THAT(lines[5], Catch::Matchers::StartsWith("layer ") && Contains("output of one"));
    const std::string sum = std::to_string(info.parameters);
    CHECK_THAT(lines.back(),
               Catch::Matchers::StartsWith("total ") && Catch::Matchers::EndsWith(" " + sum));
    // The column of numbers adds up to what the last line says.
    std::int64_t added = 0;
    for (std::size_t i = 6; i + 1 < lines.size(); ++i)
      added += std::stoll(lines[i].substr(lines[i].rfind(' ') + 1));
    CHECK(added == info.parameters);
    REQUIRE(expected.count(info.name) == 1);
    const Described& described = expected.at(info.name);
    CHECK(lines.size() - 7 == described.lines);
    CHECK(lines[6] == described.first_layer);
    CHECK(lines[lines.size() - 2] == described.last_layer);
  }
}

TEST_CASE("photographs are described at the size that was asked for", "[models]") {
  const ModelInfo* const resnet = find_model("resnet50");
  REQUIRE(resnet != nullptr);
  CHECK_THAT(describe_model(*resnet, resnet->shape, resnet->recipe), Contains("[1, 64, 112, 112]"));
  CHECK_THAT(describe_model(*resnet, resnet->shape, resnet->recipe, 64),
             Contains("[1, 64, 32, 32]") && !Contains("112, 112"));
}

}  // namespace
}  // namespace hvdrun
