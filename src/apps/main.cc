// The one binary; a file per subcommand beside it.
#include <cstdio>

int main() {
  std::printf("remontoir %s\n", REMONTOIR_VERSION);
  return 0;
}
