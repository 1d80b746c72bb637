"""A text environment of one's own: fetch the key, then open the door."""

import gymnasium as gym
from gymnasium.spaces import Text

ROOMS = ("cellar", "hall", "kitchen", "attic")


class KeyAndDoorEnv(gym.Env):
    """Four rooms in a row. The key lies in one of them, by the seed; the locked door is in the hall."""

    observation_space, action_space = Text(100), Text(20)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.key = int(self.np_random.integers(4))
        self.room, self.has_key, self.steps = 0, False, 0
        return self.look(), {**self.info(), "task": "Open the door in the hall."}

    def step(self, action):
        self.steps += 1
        known = action in self.info()["admissible_actions"]  # any other changes nothing
        self.has_key |= known and action == "take key"
        self.room += known * {"go left": -1, "go right": 1}.get(action, 0)
        opened = known and action == "open door"
        info = {**self.info(), "is_success": opened}
        return self.look(), float(opened), opened, not opened and self.steps == 12, info

    def look(self):
        thing = "a key" if self.key == self.room and not self.has_key else "nothing"
        return f"You are in the {ROOMS[self.room]}. There is {thing}."

    def info(self):
        possible = {
            "go left": self.room > 0,
            "go right": self.room < 3,
            "take key": self.room == self.key and not self.has_key,
            "open door": self.room == 1 and self.has_key,
        }
        actions = [action for action in possible if possible[action]]
        # The observation does not tell who has the key, so it is not the whole state.
        return {"admissible_actions": actions, "state_key": (self.room, self.key, self.has_key)}


gym.register("KeyAndDoor-v0", KeyAndDoorEnv)
