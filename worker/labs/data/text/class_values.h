// The values of a column that says to which of two classes a row belongs, and which of them is 1.
// Numbers may be written in any way ("1", "1.0", "+1"), words with small letters or capital ones.
//
// Of two numbers the greater is 1, of a word and its denial ("spam", "not spam") the word. Of
// others it is that which comes later by its bytes: yes, true, positive, good and spam among them.
//
// C++17: the labs include this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

// So many different values at most; a column with more is another one.
inline constexpr std::size_t kMaxClassValues = 1000;

class ClassValues {
 public:
  // Counts a row's value; false where there are more than kMaxClassValues.
  bool add(std::string_view field);
  // Once all are counted. False, and `error` has the values and what to do, but not the file's and
  // the column's name: fewer than two classes, more of them, values missing in more than a
  // hundredth of the rows. A value that hardly ever occurs is a slip of somebody's pen and no
  // class.
  bool choose(std::string& error);

  // After choose(). None: the value is missing, or a slip.
  std::optional<std::uint8_t> label(std::string_view field) const;
  // "labels: spam is 1, ham is 0"; empty, where they are 0 and 1 themselves.
  std::string note() const;
  // The first few values, with how often each is there: "'ham' 4825 times, 'spam' 747 times".
  std::string seen() const;

 private:
  std::map<std::string, std::size_t, std::less<>> counts_;
  std::vector<std::string> order_;  // as they were seen first
  std::size_t rows_ = 0;
  std::size_t missing_ = 0;
  std::string zero_;
  std::string one_;
};

}  // namespace hvdrun
