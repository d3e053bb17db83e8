// What the engine tells the launcher of operations that wait: StallReport and PendingTensor, for
// AgentLine::report_stall() and LineEvents::stall_asked. They travel as they are, so they stand
// among the messages.
#pragma once

#include "common/wire/stall_messages.h"
