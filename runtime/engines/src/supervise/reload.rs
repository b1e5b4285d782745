//! `SIGHUP`: rereads the settings, applies those that can change while workers serve, and reopens
//! logs. Data stays as it is.

use language::info;

use super::crew::Crew;
use super::state::{Supervisor, clock};
use crate::spare::Terms;

impl<C: Crew> Supervisor<'_, C> {
    /// Reloads, and returns the report.
    ///
    /// The order is: the settings of the server; the files of the store; then a notice to the
    /// workers, each of which calls [`crate::Admin::renew`] before its next turn.
    pub(super) fn reload(&mut self) -> Vec<String> {
        let mut words = Vec::new();
        if let Some(reload) = &mut self.administration.admin.reload {
            let found = reload();
            words.extend(found.words);
            if let Some(knobs) = found.knobs {
                self.common.put_in_force(&knobs);
                let in_force = self.common.in_force();
                if let Some(spare) = &mut self.spare {
                    let now = spare.terms();
                    spare.set_terms(Terms {
                        spare_min: in_force.spare_min().unwrap_or(now.spare_min),
                        spare_max: in_force.spare_max().unwrap_or(now.spare_max),
                        ..now
                    });
                }
            }
        }
        words.extend(self.store.reload(&()));
        let board = self.common.board;
        board.publish();
        words.extend(self.common.renew.and_then(|renew| renew(board.edition())));
        if words.is_empty() {
            words.push("there is nothing to reload".to_owned());
        }
        for line in &words {
            info!("reload: {line}");
        }
        self.event_log.note(clock(), "reload", None, words.join("; "), false);
        words
    }
}
