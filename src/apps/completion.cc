// One table of commands, printed as each shell wants it.
#include "apps/completion.h"

namespace remontoir {
namespace {

std::string Joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

// zsh takes bash's words through its bashcompinit.
std::string BashScript(const std::vector<CompletedCommand>& commands) {
  std::string script =
      "_remontoir() {\n"
      "  local current=\"${COMP_WORDS[COMP_CWORD]}\" words=\"\" word offered=\"\"\n"
      "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
      "    case \"$word\" in -*) break ;; esac\n"
      "    words=\"${words:+$words }$word\"\n"
      "  done\n"
      "  case \"$words\" in\n";
  for (const CompletedCommand& command : commands) {
    // Behind a command other words are models and files; its flags stay on offer.
    const std::string pattern =
        command.words.empty() ? "\"\"" : "\"" + command.words + "\"|\"" + command.words + " \"*";
    if (!command.commands.empty()) {
      const std::string exact = "\"" + command.words + "\"";
      script += "    " + exact + ") offered=\"" + Joined(command.commands) + " " +
                Joined(command.flags) + "\" ;;\n";
    } else {
      script += "    " + pattern + ") offered=\"" + Joined(command.flags) + "\" ;;\n";
    }
  }
  return script +
         "  esac\n"
         "  COMPREPLY=($(compgen -W \"$offered\" -- \"$current\"))\n"
         "}\n"
         "complete -o default -F _remontoir remontoir\n";
}

std::string FishScript(const std::vector<CompletedCommand>& commands) {
  std::string script;
  for (const CompletedCommand& command : commands) {
    const std::string last = command.words.substr(command.words.rfind(' ') + 1);
    const std::string when =
        command.words.empty() ? "__fish_use_subcommand" : "__fish_seen_subcommand_from " + last;
    for (const std::string& next : command.commands) {
      script += "complete -c remontoir -n '" + when + "' -a " + next + "\n";
    }
    for (const std::string& flag : command.flags) {
      script += "complete -c remontoir -n '" + when + "' -l " + flag.substr(2) + "\n";
    }
  }
  return script;
}

}  // namespace

Result<std::string> CompletionScript(const std::string& shell,
                                     const std::vector<CompletedCommand>& commands) {
  if (shell == "bash") return BashScript(commands);
  if (shell == "zsh") {
    return "autoload -U +X bashcompinit && bashcompinit\n" + BashScript(commands);
  }
  if (shell == "fish") return FishScript(commands);
  return InvalidArgument("completion knows bash, zsh and fish, not " + shell);
}

}  // namespace remontoir
