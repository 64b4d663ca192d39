// Asking the system to give a thread the processor in short turns.
#pragma once

namespace remontoir {

// Asks for turns of a millisecond for the calling thread, where the system can be asked (Linux from
// 6.12 on); elsewhere, and for a thread that somebody gave a real-time or batch policy, it does
// nothing. The thread's share of a busy processor stays what it was, and so do its priority and
// policy. What it gains is the start: of threads that are owed time the system runs first the one
// whose turn would end first, so a worker that slept until a step opened needn't wait for a
// neighbour's whole turn (some 4 ms).
void AskForShortTurns();

}  // namespace remontoir
