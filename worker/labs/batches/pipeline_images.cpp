#include "worker/labs/batches/pipeline_images.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <stdexcept>
#include <utility>

#include "worker/labs/batches/bad_data.h"
#include "worker/labs/batches/data_format.h"
#include "worker/labs/data/files/split_mix.h"
#include "worker/labs/data/images/image_check.h"

namespace hvdrun {
namespace {

constexpr std::size_t kTestPart = 5;  // one of so many

PipelineOptions pipeline_options(const DataRequest& request) {
  PipelineOptions options;
  options.side = static_cast<std::size_t>(request.image_size);
  options.dct = request.dct_method == "fast" ? DctMethod::fast : DctMethod::accurate;
  options.threads = static_cast<std::size_t>(request.data_threads);
  return options;
}

std::unique_ptr<Dataset> dataset(std::unique_ptr<ImageSource> source, const DataRequest& request,
                                 std::vector<double> weights = {},
                                 std::vector<std::string> names = {}) {
  return std::make_unique<PipelineImages>(std::move(source), pipeline_options(request),
                                          std::move(weights), std::move(names));
}

bool is_folder(const std::string& path) {
  std::error_code code;
  return std::filesystem::is_directory(path, code);
}

// A line for each kind of thing; hundreds may be empty.
void note_passed_over(const ClassFolders& found, const std::string& directory, DataSets& sets) {
  const std::string others = found.passed_over.text();
  if (!others.empty()) sets.notes.push_back("passed over in " + directory + ": " + others);
  const std::size_t count = found.empty.size();
  if (count == 0) return;
  sets.notes.push_back(directory + ": " + std::to_string(count) +
                       (count == 1 ? " folder without an image passed over: "
                                   : " folders without an image passed over; the first one: ") +
                       found.empty.front());
}

// Those of the sorted names in `of` that are not in `in`: ": no images of a, b and 3 more".
std::string only_in(const std::vector<std::string>& of, const std::vector<std::string>& in,
                    const char* what) {
  constexpr std::size_t kNamed = 3;
  std::vector<std::string> only;
  std::set_difference(of.begin(), of.end(), in.begin(), in.end(), std::back_inserter(only));
  std::string text;
  for (std::size_t i = 0; i < std::min(kNamed, only.size()); ++i)
    text += (i == 0 ? what : ", ") + ("'" + only[i] + "'");
  if (only.size() > kNamed) text += " and " + std::to_string(only.size() - kNamed) + " more";
  return text;
}

std::string difference_text(const std::vector<std::string>& train,
                            const std::vector<std::string>& test) {
  return only_in(train, test, "; no images of ") + only_in(test, train, "; only there: ");
}

std::optional<DataSets> open_two_folders(const DataRequest& request, std::string& error) {
  const auto train = list_class_folders(request.directory + "/train", error);
  if (!train) return std::nullopt;
  const bool is_short = is_folder(request.directory + "/val");
  const std::string other = request.directory + (is_short ? "/val" : "/validation");
  const auto test = list_class_folders(other, error);
  if (!test) return std::nullopt;
  if (test->classes != train->classes) {
    error = other + ": its classes are not those of " + request.directory + "/train" +
            difference_text(train->classes, test->classes);
    return std::nullopt;
  }
  const auto classes = static_cast<std::int64_t>(train->classes.size());
  if (request.classes > 0 && classes > request.classes) {
    error = request.directory + "/train: " + std::to_string(classes) +
            " folders, but the model has " + std::to_string(request.classes) +
            " classes; --classes sets them";
    return std::nullopt;
  }
  DataSets sets;
  note_passed_over(*train, request.directory + "/train", sets);
  note_passed_over(*test, other, sets);
  sets.train = dataset(folder_source(train->files, classes), request, {}, train->classes);
  sets.test = dataset(folder_source(test->files, classes), request, {}, train->classes);
  return sets;
}

}  // namespace

PipelineImages::PipelineImages(std::shared_ptr<const ImageSource> source,
                               const PipelineOptions& options, std::vector<double> class_weights,
                               std::vector<std::string> names)
    : source_(std::move(source)),
      side_(static_cast<std::int64_t>(options.side)),
      threads_(options.threads),
      class_weights_(std::move(class_weights)),
      names_(std::move(names)),
      pipeline_(source_, options) {}

void PipelineImages::begin(Pass pass) {
  stops_ = pass.on_bad == OnBadSample::stop;
  pipeline_.begin(std::move(pass));
}

BadSamples PipelineImages::look_over(std::size_t part, std::size_t parts,
                                     std::chrono::steady_clock::time_point until) const {
  LookOver how;
  how.part = part;
  how.parts = parts;
  how.threads = threads_;
  how.until = until;
  return hvdrun::look_over(*source_, how);
}

std::optional<Batch> PipelineImages::next() {
  std::string error;
  // The tensors are the pipeline's own memory, which goes back to it with the last of them.
  const std::shared_ptr<CroppedImages> owner = pipeline_.next(error);
  if (!error.empty()) throw DataError(stops_ ? error + "; " + kSkipHint : error);
  if (!owner) return std::nullopt;
  const auto n = static_cast<std::int64_t>(owner->labels.size());
  const auto keep = [owner](void*) {};
  return Batch{at::from_blob(owner->pixels.data(), {n, 3, side_, side_}, keep, at::kFloat),
               at::from_blob(owner->labels.data(), {n}, keep, at::kLong)};
}

std::optional<DataSets> open_imagenet(const DataRequest& request, std::string& error) {
  if (is_folder(request.directory + "/train")) return open_two_folders(request, error);
  DataSets sets;
  for (const bool train : {true, false}) {
    std::unique_ptr<ImageSource> source =
        shard_source(request.directory, train ? "train" : "validation", request.classes, error);
    if (!source) {
      error += "; scripts/make-dataset imagenet DIR makes a set";
      return std::nullopt;
    }
    if (std::string note = source->note(); !note.empty()) sets.notes.push_back(std::move(note));
    (train ? sets.train : sets.test) = dataset(std::move(source), request);
  }
  return sets;
}

std::optional<DataSets> open_labelled_folders(const DataRequest& request, std::string& error) {
  const auto found = list_class_folders(request.directory, error);
  if (!found) {
    error += "; scripts/make-dataset artists DIR makes a set";
    return std::nullopt;
  }
  const std::size_t classes = found->classes.size();
  std::vector<std::vector<ClassFolders::File>> by_class(classes);
  for (const ClassFolders::File& file : found->files)
    by_class[static_cast<std::size_t>(file.label)].push_back(file);
  std::vector<ClassFolders::File> train;
  std::vector<ClassFolders::File> test;
  std::vector<double> weights;
  for (std::size_t label = 0; label < classes; ++label) {
    std::vector<ClassFolders::File>& files = by_class[label];
    if (files.size() < 2) {
      error = request.directory + "/" + found->classes[label] +
              ": one image; a class needs two, one of them for the test";
      return std::nullopt;
    }
    SplitMix random(request.seed, label);
    for (std::size_t i = files.size(); i > 1; --i) std::swap(files[i - 1], files[random.below(i)]);
    const std::size_t held = std::max<std::size_t>(1, files.size() / kTestPart);
    const auto middle = files.begin() + static_cast<std::ptrdiff_t>(held);
    test.insert(test.end(), files.begin(), middle);
    train.insert(train.end(), middle, files.end());
    weights.push_back(static_cast<double>(files.size() - held));
  }
  for (double& weight : weights)
    weight = static_cast<double>(train.size()) / (static_cast<double>(classes) * weight);
  const auto count = static_cast<std::int64_t>(classes);
  DataSets sets;
  note_passed_over(*found, request.directory, sets);
  sets.train = dataset(folder_source(std::move(train), count), request, weights, found->classes);
  sets.test = dataset(folder_source(std::move(test), count), request, weights, found->classes);
  return sets;
}

}  // namespace hvdrun
