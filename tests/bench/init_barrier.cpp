// The least that every rank of a job does: init, one barrier, shutdown.
#include <hvd/hvd.h>

int main() {
  hvd::init();
  hvd::barrier();
  hvd::shutdown();
}
