// Made-up pictures whose class is a pattern: stripes of two directions, lozenges, spirals, a
// chequerboard, rings, dots, rays, zigzags, crosses. Colours, phase and period are anyone's, so
// that no single pixel tells anything and a linear model stays near guessing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "worker/labs/data/files/split_mix.h"
#include "worker/labs/data/images/image.h"
#include "worker/labs/data/images/mnist_files.h"

namespace hvdrun {

inline constexpr std::size_t kPatterns = 10;

Image synthetic_pattern(std::size_t kind, std::size_t rows, std::size_t columns, SplitMix& random);

// As ImageNet's: four shards train-*, two shards validation-*, of JPEGs of 96 to 160 pixels, with
// the features of ImageNet's records; classes 1 to 10. The same files for the same arguments, as
// long as libjpeg and the C library's sines are the same. False, and `error` names the file, when
// one cannot be written.
bool write_synthetic_imagenet(const std::string& directory, Split split, std::size_t count,
                              std::uint64_t seed, std::string& error);

// Folders of five painters, with 40 to 8 % of the pictures each; every fifth picture is a PNG.
// Training and test images stand together: who trains on them divides them.
bool write_synthetic_artists(const std::string& directory, Split split, std::size_t count,
                             std::uint64_t seed, std::string& error);

// 28x28 grey silhouettes of ten kinds of clothes, as Fashion-MNIST's: shirt, trousers, pullover,
// dress, coat, sandal, vest, shoe, bag, boot; anywhere, of any size, dark on light or light on
// dark, so that a linear model finds out little.
LabelledImages synthetic_clothes(Split split, std::size_t count, std::uint64_t seed);

}  // namespace hvdrun
